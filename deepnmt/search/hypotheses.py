"""The hypotheses of a batch during a beam search, and the finished ones.

Shapes: N sentences still in the search, of B in the batch; K hypotheses of each; n candidates, 2 K except in tiny
vocabularies; E hypotheses that end in a step; P positions so far, of L that there is room for; S source positions.

Tokens, sums and attention stay where they were written, at their step and their place in the beam; `ancestors` says
which place each hypothesis descends from. When a sentence is done, the last one takes its place.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from deepnmt.kernels.attention import REGISTER
from deepnmt.search.candidates import Candidates
from deepnmt.search.incremental.attention_steps import Step, move
from deepnmt.search.scores import HypothesisScore

Hypothesis = dict[str, Tensor]


class Moves(NamedTuple):
    """How the sentences that are left have moved: `holes` and `movers` of `DecoderSteps.keep`."""

    holes: Tensor
    movers: Tensor


class Hypotheses:
    """What the search keeps of each sentence, under fairseq's rules.

    Args:
        tokens: the first of each sentence, B
        beam: K
        longest: tokens that a hypothesis may have before its end symbol
        eos: the end symbol
        score: gives the scores of finished hypotheses
    """

    def __init__(self, tokens: Tensor, beam: int, longest: int, eos: int, score: HypothesisScore) -> None:
        self.count, self.beam, self.longest, self.eos, self.score = len(tokens), beam, longest, eos, score
        self.position = 0  # of the newest tokens
        self.sentence = torch.arange(self.count, device=tokens.device)  # N, their numbers in the batch
        self.tokens = tokens.new_empty(self.count, longest + 2, beam)  # B x L x K
        self.tokens[:, 0] = tokens.unsqueeze(-1)
        self.sums = torch.empty(self.count, longest + 2, beam, device=tokens.device)  # B x L x K
        self.attention: Optional[Tensor] = None  # B x L x K x S
        places = torch.arange(beam, device=tokens.device)
        self.ancestors = places.unsqueeze(-1).repeat(self.count, 1, longest + 2)  # B x K x L
        # Places that hold nothing any more, since a tiny vocabulary has too few candidates for all.
        self.ignored: Optional[Tensor] = None  # N x K
        self.finished = torch.zeros(self.count, dtype=torch.long, device=tokens.device)  # N, how many
        self.parents: Optional[Tensor] = None  # N x K
        self.hidden = torch.full((beam, beam), -math.inf, device=tokens.device).fill_diagonal_(0.0)  # K x K
        # Finished hypotheses by step: the sentences' numbers, and the fields of `Hypothesis`, each with E entries.
        self.results: list[tuple[list[int], dict[str, Tensor]]] = []

    def step(self) -> Step:
        """Return the step that predicts what follows the newest tokens."""
        hypotheses = self.beam if self.position else 1
        return Step(self.position, self.count, hypotheses, self._mask(hypotheses), parents=self.parents)

    def last_tokens(self) -> Tensor:
        """Return the newest token of each hypothesis, N x K; in the first step one stands for all: N x 1."""
        tokens = self.tokens[: self.count, self.position]
        return tokens if self.position else tokens[:, :1]

    def last_sums(self) -> Optional[Tensor]:
        """Return the sums of log-probabilities of the tokens so far, N x K, or None in the first step."""
        return self.sums[: self.count, self.position] if self.position else None

    def record_attention(self, attention: Tensor) -> None:
        """Keep the attention of the step, N x K x S, or N x 1 x S of the first."""
        if self.attention is None:
            shape = (*self.tokens.shape, attention.size(-1))
            self.attention = torch.empty(shape, device=self.sums.device)
        self.attention[: self.count, self.position] = attention

    def extend(self, candidates: Candidates) -> Optional[Moves]:
        """Finish the hypotheses that candidates end, drop the sentences that are done, and continue the others.

        Args:
            candidates: N x n

        Returns:
            how the sentences that are left have moved; None: all are left
        """
        ending = candidates.tokens.eq(self.eos) & candidates.sums.ne(-math.inf)  # N x n
        if self.ignored is not None:
            ending[:, : self.beam] &= ~self.ignored
        moves = None
        if bool(ending[:, : self.beam].any()):
            done = self._finish(candidates, ending)
            if bool(done.any()):
                left, moves = self._remove(done)
                candidates, ending = candidates.of(left), ending[left]
        if self.count:
            assert self.position < self.longest, f"{self.position} < {self.longest}"
            self._advance(candidates, ending)
        return moves

    def best(self) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each sentence of the batch, the best first."""
        found: list[list[Hypothesis]] = [[] for _ in range(len(self.tokens))]
        nothing = torch.empty(0)
        for sentences, ended in self.results:
            # Outside of the search's inference mode, copies are tensors that gradients may flow through.
            each = [values.clone().unbind() for values in ended.values()]
            for sentence, *values in zip(sentences, *each):
                found[sentence].append({"attention": nothing, **dict(zip(ended, values)), "alignment": nothing})
        return [sorted(hypotheses, key=lambda hypothesis: -float(hypothesis["score"])) for hypotheses in found]

    def _mask(self, hypotheses: int) -> Tensor:
        """Return `Step.mask` for the number of hypotheses."""
        ancestors = self.ancestors[: self.count, :hypotheses, : self.position + 1].flatten()
        mask = self.hidden.index_select(0, ancestors).view(self.count, hypotheses, -1)
        missing = REGISTER - mask.size(-1)
        return F.pad(mask, (0, missing), value=-math.inf) if missing > 0 else mask

    def _finish(self, candidates: Candidates, ending: Tensor) -> Tensor:
        """Finish the hypotheses that end.

        Args:
            candidates: N x n
            ending: which of them end their hypotheses, N x n; only the K best finish

        Returns:
            the sentences that are done, N: they have K finished hypotheses, or no further token is allowed
        """
        now = ending[:, : self.beam]
        # A sentence takes no more than K, the better ones first.
        taken = now & (now.cumsum(1) + self.finished.unsqueeze(-1) <= self.beam)
        row, column = taken.nonzero(as_tuple=True)
        self._collect(row, candidates.places[row, column], candidates.sums[row, column])
        self.finished += taken.sum(1)
        return now.any(1) if self.position == self.longest else self.finished >= self.beam

    def _collect(self, row: Tensor, place: Tensor, total: Tensor) -> None:
        """Keep the results of hypotheses that end: their rows, their places, and their sums, E each."""
        before = torch.arange(self.position + 1, device=row.device)
        path = self.ancestors[row, place, : self.position + 1]  # E x P
        entry = row.unsqueeze(-1), before, path
        tokens = torch.cat([self.tokens[entry][:, 1:], torch.full_like(row, self.eos).unsqueeze(-1)], dim=1)
        sums = torch.cat([self.sums[entry][:, 1:], total.unsqueeze(-1)], dim=1)
        scores = sums.clone()
        scores[:, 1:] = sums[:, 1:] - sums[:, :-1]
        ended = {"tokens": tokens, "score": self.score(total, self.position + 1), "positional_scores": scores}
        if self.attention is not None:
            ended["attention"] = self.attention[entry].transpose(1, 2)  # E x S x P
        self.results.append((self.sentence[row].tolist(), ended))

    def _remove(self, done: Tensor) -> tuple[Tensor, Moves]:
        """Continue without the sentences that are done, N.

        Returns:
            where those that are left were; how they have moved
        """
        count = int((~done).sum())
        holes, movers = done[:count].nonzero()[:, 0], (~done[count:]).nonzero()[:, 0] + count
        for name in ("sentence", "tokens", "sums", "ancestors", "ignored", "finished", "attention"):
            tensor = getattr(self, name)
            if tensor is not None:
                move(tensor, holes, movers)
        left = torch.arange(count, device=done.device)
        left[holes] = movers
        self.count = count
        self.finished = self.finished[:count]
        if self.ignored is not None:
            self.ignored = self.ignored[:count]
        return left, Moves(holes, movers)

    def _advance(self, candidates: Candidates, ending: Tensor) -> None:
        """Let the K best candidates that end no hypothesis be the hypotheses; `ending`, N x n, is written over."""
        if self.ignored is not None:
            ending[:, : self.beam] |= self.ignored
        number = ending.size(1)
        order = torch.arange(number, device=ending.device)
        rank, chosen = order.add(ending, alpha=number).topk(self.beam, dim=1, largest=False)  # N x K
        # If there are 2 K candidates, no more than K end their hypotheses.
        self.ignored = rank >= number if number < 2 * self.beam or self.ignored is not None else None
        before = self.ancestors[: self.count, :, : self.position + 1]  # N x K x P
        self.parents = candidates.places.gather(1, chosen)
        before.copy_(before.gather(1, self.parents.unsqueeze(-1).expand_as(before)))
        self.position += 1
        self.sums[: self.count, self.position] = candidates.sums.gather(1, chosen)
        self.tokens[: self.count, self.position] = candidates.tokens.gather(1, chosen)
