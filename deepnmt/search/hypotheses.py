"""The hypotheses of a batch during a beam search, and those that are finished.

Shapes: N sentences in the search; K hypotheses of each; n candidates, 2 K but for tiny vocabularies; E hypotheses that
end in a step; P positions so far; S source positions.

Tokens, sums and attention stay where they were written, at their step and their place in the beam; `ancestors` says
which place each hypothesis descends from. When a sentence is done, the last one takes its place.
"""

from __future__ import annotations

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from deepnmt.model.attention import REGISTER
from deepnmt.search.incremental.attention_steps import move

Hypothesis = dict[str, Tensor]


class Hypotheses:
    """What the search keeps of each sentence; names and rules are fairseq's.

    Args:
        tokens: the first of each sentence, N
        beam: K
        longest: steps there may be
        eos: what ends a hypothesis
        normalize: divide scores by length to the power of `length_penalty`
        length_penalty: see `normalize`
    """

    def __init__(
        self, tokens: Tensor, beam: int, longest: int, eos: int, normalize: bool, length_penalty: float
    ) -> None:
        self.count, self.beam, self.eos = len(tokens), beam, eos
        self.normalize, self.length_penalty = normalize, length_penalty
        self.sentence = torch.arange(self.count, device=tokens.device)  # its number in the batch
        self.tokens = tokens.new_empty(self.count, longest, beam)
        self.tokens[:, 0] = tokens.unsqueeze(-1)
        self.sums = torch.empty(self.count, longest, beam, device=tokens.device)
        self.attention: Optional[Tensor] = None
        places = torch.arange(beam, device=tokens.device)
        self.ancestors = places.unsqueeze(-1).repeat(self.count, 1, longest)  # N x K x P
        # Places that hold nothing any more, since a tiny vocabulary has too few candidates for all.
        self.ignored: Optional[Tensor] = None  # N x K
        self.done = torch.zeros(self.count, dtype=torch.long, device=tokens.device)  # finished hypotheses
        self.parents: Optional[Tensor] = None
        self.hidden = torch.full((beam, beam), -math.inf, device=tokens.device).fill_diagonal_(0.0)
        # Of each step in which hypotheses end: their sentences, and what a `Hypothesis` has of each.
        self.finished: list[tuple[list[int], dict[str, Tensor]]] = []

    def last_tokens(self, step: int) -> Tensor:
        """The newest token of each hypothesis, N x K; in the first step one stands for all: N x 1."""
        tokens = self.tokens[: self.count, step]
        return tokens if step else tokens[:, :1]

    def last_sums(self, step: int) -> Optional[Tensor]:
        """The sum of log-probabilities before a step, N x K; None before the first."""
        return self.sums[: self.count, step] if step else None

    def mask(self, step: int) -> Tensor:
        """See `Step.mask`; in the first step one hypothesis stands for all."""
        hypotheses = self.beam if step else 1
        ancestors = self.ancestors[: self.count, :hypotheses, : step + 1].flatten()
        mask = self.hidden.index_select(0, ancestors).view(self.count, hypotheses, -1)
        missing = REGISTER - mask.size(-1)
        return F.pad(mask, (0, missing), value=-math.inf) if missing > 0 else mask

    def record_attention(self, step: int, attention: Tensor) -> None:
        """Keep N x K x S of a step, or N x 1 x S of the first."""
        if self.attention is None:
            shape = (*self.tokens.shape, attention.size(-1))
            self.attention = torch.empty(shape, device=self.sums.device)
        self.attention[: self.count, step] = attention

    def finish(self, step: int, eos: Tensor, places: Tensor, sums: Tensor, last: bool) -> Tensor:
        """Finish hypotheses that end.

        Args:
            step: the step
            eos: which candidates end theirs, N x K
            places: the hypotheses that the candidates continue, N x K
            sums: of the candidates, N x K
            last: nothing can come after

        Returns:
            the sentences that are done, N: they have K finished hypotheses, or nothing can come after
        """
        # A sentence takes no more than K, the better ones first.
        taken = eos & (eos.cumsum(1) + self.done.unsqueeze(-1) <= self.beam)
        row, column = taken.nonzero(as_tuple=True)
        self._collect(step, row, places[row, column], sums[row, column])
        self.done += taken.sum(1)
        return eos.any(1) if last else self.done >= self.beam

    def _collect(self, step: int, row: Tensor, place: Tensor, total: Tensor) -> None:
        before = torch.arange(step + 1, device=row.device)
        path = self.ancestors[row, place, : step + 1]  # E x P
        entry = row.unsqueeze(-1), before, path
        tokens = torch.cat([self.tokens[entry][:, 1:], torch.full_like(row, self.eos).unsqueeze(-1)], dim=1)
        sums = torch.cat([self.sums[entry][:, 1:], total.unsqueeze(-1)], dim=1)
        scores = sums.clone()
        scores[:, 1:] = sums[:, 1:] - sums[:, :-1]
        if self.normalize:
            total = total / (step + 1) ** self.length_penalty
        ended = {"tokens": tokens, "score": total, "positional_scores": scores}
        if self.attention is not None:
            ended["attention"] = self.attention[entry].transpose(1, 2)
        self.finished.append((self.sentence[row].tolist(), ended))

    def remove(self, done: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Go on without the sentences that are done, N.

        Returns:
            where those that are left were, and of `DecoderSteps.keep`, `holes` and `movers`
        """
        count = int((~done).sum())
        holes, movers = done[:count].nonzero()[:, 0], (~done[count:]).nonzero()[:, 0] + count
        for name in ("sentence", "tokens", "sums", "ancestors", "ignored", "done", "attention"):
            tensor = getattr(self, name)
            if tensor is not None:
                move(tensor, holes, movers)
        left = torch.arange(count, device=done.device)
        left[holes] = movers
        self.count = count
        self.done = self.done[:count]
        if self.ignored is not None:
            self.ignored = self.ignored[:count]
        return left, holes, movers

    def advance(self, step: int, sums: Tensor, tokens: Tensor, places: Tensor, ending: Tensor) -> None:
        """Let the K best candidates that do not end be the hypotheses.

        Args:
            step: the step
            sums: of the candidates, N x n, the best first
            tokens: what each appends, N x n
            places: the hypotheses that they continue, N x n
            ending: which end theirs, or must not be taken, N x n
        """
        number = sums.size(1)
        order = torch.arange(number, device=sums.device)
        rank, chosen = order.add(ending, alpha=number).topk(self.beam, dim=1, largest=False)
        # Of 2 K candidates, no more than K end their hypotheses.
        self.ignored = rank >= number if number < 2 * self.beam or self.ignored is not None else None
        self.parents = places.gather(1, chosen)
        self.sums[: self.count, step + 1] = sums.gather(1, chosen)
        self.tokens[: self.count, step + 1] = tokens.gather(1, chosen)
        before = self.ancestors[: self.count, :, : step + 1]
        before.copy_(before.gather(1, self.parents.unsqueeze(-1).expand_as(before)))

    def best(self) -> list[list[Hypothesis]]:
        """The finished hypotheses of each sentence of the batch, the best first."""
        found: list[list[Hypothesis]] = [[] for _ in range(len(self.tokens))]
        nothing = torch.empty(0)
        for sentences, ended in self.finished:
            # Outside of the search's inference mode, copies are tensors that gradients may flow through.
            each = [values.clone().unbind() for values in ended.values()]
            for sentence, *values in zip(sentences, *each):
                found[sentence].append({"attention": nothing, **dict(zip(ended, values)), "alignment": nothing})
        return [sorted(hypotheses, key=lambda hypothesis: -float(hypothesis["score"])) for hypotheses in found]
