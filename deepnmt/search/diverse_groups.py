"""Diverse beam search (Vijayakumar 2018, AAAI, arXiv 1610.02424): fairseq's --diverse-beam-groups.

The beam is cut into groups that search independently. In each step, a group pays for every type that earlier groups
have chosen in the same step:

    score of y in group g = log P(y | ...) - strength sum_{h < g} (1 + overlap_gh) count_h(y)

overlap_gh counts the earlier steps in which both groups had the same choice (fairseq's "cumulative diversity").

In fairseq 0.12.3 a finished hypothesis stays in the beam and is continued, and hypotheses move between groups. Overlaps
are looked up by the sentences' indices in the data, which in most batches lie beyond the batch's end. Here a group is
finished once it has returned as many translations as it has places.

Shapes: N sentences; a beam of K in G groups, place p in group p mod G; V types.
"""

import math
from typing import Any, Optional

import torch
from fairseq.search import Search
from torch import Tensor


class DiverseGroups(Search):  # type: ignore[misc]
    """A search strategy of fairseq's generator.

    Args:
        tgt_dict: of the target language
        num_groups: G, which divides the beam
        diversity_strength: the strength above
        diversity_discount: factor for an overlap in each step
    """

    def __init__(
        self, tgt_dict: Any, num_groups: int, diversity_strength: float, diversity_discount: float = 1.0
    ) -> None:
        super().__init__(tgt_dict)
        self.groups, self.strength, self.discount = num_groups, diversity_strength, diversity_discount
        self.ended = torch.empty(0)  # N x G, translations of each group
        self.overlap = torch.empty(0)  # N x G x G

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        """Go on with some of the sentences, which the generator calls for when others are done."""
        self.ended, self.overlap = self.ended[batch_idxs], self.overlap[batch_idxs]

    def step(
        self,
        step: int,
        lprobs: Tensor,
        scores: Optional[Tensor],
        prev_output_tokens: Optional[Tensor] = None,
        original_batch_idxs: Optional[Tensor] = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, types and places of 2 K candidates, N x 2K each.

        The generator ends hypotheses at end symbols among the first K candidates, and continues the first K others.
        Ending candidates therefore come first, followed by one candidate for each place of the beam.
        """
        sentences, beam = lprobs.shape[:2]
        if step == 0:
            self.ended = lprobs.new_zeros(sentences, self.groups, dtype=torch.long)
            self.overlap = lprobs.new_zeros(sentences, self.groups, self.groups)
        chosen: list[Tensor] = []
        ending, others = [], []
        for group in range(self.groups):
            own = lprobs[:, group :: self.groups]
            own = own - self.strength * self._price(group, chosen, own).unsqueeze(1)
            if step == 0:
                own = own[:, :1]
            else:
                assert scores is not None
                own = own + scores[:, group :: self.groups, step - 1].unsqueeze(-1)
            best = self._best(own, group, beam // self.groups)
            chosen.append(best[1][:, : beam // self.groups].masked_fill(best[0][:, : beam // self.groups].isinf(), -1))
            ended, continued = self._split(best, group, beam // self.groups)
            ending.append(ended)
            others.append(continued)
        self._note_overlaps(chosen)
        # Side by side: the first of each group, then the second of each.
        columns = [torch.stack(kinds, dim=2).flatten(1) for kinds in zip(*ending)]
        ends = columns[0].ne(-math.inf)
        order = torch.cat([torch.where(ends, 0, 2), torch.ones_like(columns[1])], dim=1).sort(dim=1, stable=True)[1]
        rest = [torch.stack(kinds, dim=2).flatten(1) for kinds in zip(*others)]
        found = [torch.cat(pair, dim=1).gather(1, order) for pair in zip(columns, rest)]
        return found[0], found[1], found[2]

    def _price(self, group: int, chosen: list[Tensor], own: Tensor) -> Tensor:
        """Return a group's price for each type, in units of the strength, N x V."""
        price = own.new_zeros(own.size(0), own.size(2))
        for other, tokens in enumerate(chosen):
            each = (1 + self.overlap[:, group, other]).unsqueeze(-1) * tokens.ne(-1)
            price.scatter_add_(1, tokens.clamp(min=0), each)
        return price

    def _best(self, totals: Tensor, group: int, places: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, types and places of a group's 2 K / G best candidates; `totals` is N x K/G x V."""
        flat = totals.flatten(1)
        scores, index = flat.topk(min(2 * places, flat.size(1)))
        missing = 2 * places - scores.size(1)
        if missing > 0:  # of a tiny vocabulary
            scores = torch.nn.functional.pad(scores, (0, missing), value=-math.inf)
            index = torch.nn.functional.pad(index, (0, missing))
        scores = scores.masked_fill((self.ended[:, group] >= places).unsqueeze(-1), -math.inf)
        return scores, index.remainder(totals.size(2)), index // totals.size(2) * self.groups + group

    def _split(
        self, best: tuple[Tensor, Tensor, Tensor], group: int, places: int
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Return the candidates that end a hypothesis, and the others, N x K/G each; -inf at empty places."""
        scores, tokens, parents = best
        is_end = tokens.eq(self.eos) & scores.ne(-math.inf)
        ends = is_end[:, :places]
        ends = ends & (ends.cumsum(1) + self.ended[:, group].unsqueeze(-1) <= places)
        self.ended[:, group] += ends.sum(1)
        ended = (scores[:, :places].masked_fill(~ends, -math.inf), tokens[:, :places], parents[:, :places])
        order = torch.arange(tokens.size(1), device=tokens.device) + is_end * tokens.size(1)
        rank, column = order.topk(places, dim=1, largest=False)
        full = (self.ended[:, group] >= places).unsqueeze(-1) | rank.ge(tokens.size(1))
        # As padding, what does not go on cannot be taken for an end.
        return ended, (
            scores.gather(1, column).masked_fill(full, -math.inf),
            tokens.gather(1, column).masked_fill(full, self.pad),
            parents.gather(1, column),
        )

    def _note_overlaps(self, chosen: list[Tensor]) -> None:
        tokens = torch.stack(chosen, dim=1)  # N x G x K/G
        same = tokens.unsqueeze(1).eq(tokens.unsqueeze(2)) & tokens.ne(-1).unsqueeze(1)
        self.overlap = self.discount * (self.overlap + same.sum(3))
