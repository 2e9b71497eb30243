"""The hypotheses of a batch during a beam search, and the finished ones.

Shapes: N unfinished sentences of B in the batch; K hypotheses of each; n candidates, 2 K except in tiny vocabularies. E
hypotheses end in a step; P positions so far, with room for L; S source positions.

Tokens, sums and attention stay at the step and the place in the beam where they were written. `ancestors` records the
place from which each hypothesis descends. When a sentence is finished, the last one takes its place.
"""

import math
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from deepnmt.kernels.short_attention import REGISTER
from deepnmt.search.candidates import Candidates
from deepnmt.search.coverage import Coverage
from deepnmt.search.incremental.attention_steps import Step, move
from deepnmt.search.scores import HypothesisScore

Hypothesis = dict[str, Tensor]


class Moves(NamedTuple):
    """How the sentences that are left have moved: `holes` and `movers` of `DecoderSteps.keep`."""

    holes: Tensor
    movers: Tensor


class Hypotheses:
    """The search state of each sentence, under fairseq's rules.

    Args:
        tokens: the first of each sentence, B
        beam: K
        longest: greatest number of tokens before a hypothesis's end symbol
        eos: the end symbol
        score: gives the scores of finished hypotheses
        coverage: for scores that need it
        longest_of: the same limit for each sentence, B, where it differs from `longest`
    """

    def __init__(
        self,
        tokens: Tensor,
        beam: int,
        longest: int,
        eos: int,
        score: HypothesisScore,
        coverage: Optional[Coverage] = None,
        longest_of: Optional[Tensor] = None,
    ) -> None:
        self.count, self.beam, self.longest, self.eos, self.score = len(tokens), beam, longest, eos, score
        self.coverage, self.longest_of = coverage, longest_of
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
        self.best_score = torch.full((self.count,), -math.inf, device=tokens.device)  # N, of the finished ones
        self.some_ended = False  # in this step
        self.parents: Optional[Tensor] = None  # N x K
        self.hidden = torch.full((beam, beam), -math.inf, device=tokens.device).fill_diagonal_(0.0)  # K x K
        # Finished hypotheses by step: the sentences' numbers, and the fields of `Hypothesis`, each with E entries.
        self.results: list[tuple[list[int], dict[str, Tensor]]] = []

    def step(self) -> Step:
        """Return the step that predicts the token after the newest ones."""
        hypotheses = self.beam if self.position else 1
        return Step(self.position, self.count, hypotheses, self._mask(hypotheses), parents=self.parents)

    def last_tokens(self) -> Tensor:
        """Return the newest token of each hypothesis, N x K; in the first step one stands for all: N x 1."""
        tokens = self.tokens[: self.count, self.position]
        return tokens if self.position else tokens[:, :1]

    def last_sums(self) -> Optional[Tensor]:
        """Return the sums of log-probabilities of the tokens so far, N x K, or None in the first step."""
        return self.sums[: self.count, self.position] if self.position else None

    def strings(self) -> Tensor:
        """Return all tokens of each hypothesis after the first, NM x P and sentence-major; in the first step M = 1."""
        number = self.beam if self.position else 1
        path = self.ancestors[: self.count, :number, : self.position + 1]  # N x M x (P + 1)
        row = torch.arange(self.count, device=path.device).view(-1, 1, 1)
        return self.tokens[row, torch.arange(self.position + 1, device=path.device), path][..., 1:].flatten(0, 1)

    def record(self, attention: Optional[Tensor], covering: Optional[Tensor]) -> None:
        """Record the step's attention for display and coverage: N x K x S, or N x 1 x S in the first step."""
        if attention is not None:
            if self.attention is None:
                shape = (*self.tokens.shape, attention.size(-1))
                self.attention = torch.empty(shape, device=self.sums.device)
            self.attention[: self.count, self.position] = attention
        if self.coverage is not None and covering is not None:
            self.coverage.add(covering, self.sentence, self.parents)

    def bonus(self) -> Optional[Tensor]:
        """Return the term that is added to sums when the step's candidates are ordered, N x M, or None.

        At equal length n, comparing log P / lp(n) + cp is the same as comparing log P + lp(n) cp.
        """
        if self.coverage is None or not self.coverage.in_beam or self.score.coverage_penalty is None:
            return None
        assert self.coverage.received is not None
        return self.score.coverage_penalty(self.coverage.received) * self.score.length_penalty(self.position + 1)

    def scores(self, candidates: Candidates) -> Tensor:
        """Return the scores, N x n, that candidates would have as finished hypotheses."""
        received = None
        if self.coverage is not None and self.coverage.received is not None:
            rows = torch.arange(self.count, device=candidates.places.device).unsqueeze(-1)
            received = self.coverage.received[rows, candidates.places]
        return self.score(candidates.sums, self.position + 1, received)

    def finish(self, candidates: Candidates, at_most: Optional[int]) -> Tensor:
        """Finish the hypotheses that the K best of N x n candidates end, in a sentence at most `at_most`; None: all.

        Return which candidates end their hypotheses, or continue none, N x n.
        """
        ending = candidates.tokens.eq(self.eos) & candidates.sums.ne(-math.inf)
        if self.ignored is not None:
            ending[:, : self.beam] &= ~self.ignored
        taken = ending[:, : self.beam]
        self.some_ended = bool(taken.any())
        if self.some_ended:
            if at_most is not None:
                # The better ones come first.
                taken = taken & (taken.cumsum(1) + self.finished.unsqueeze(-1) <= at_most)
            row, column = taken.nonzero(as_tuple=True)
            self._collect(row, candidates.places[row, column], candidates.sums[row, column])
            self.finished += taken.sum(1)
        return ending

    def extend(self, candidates: Candidates, ending: Tensor, done: Optional[Tensor]) -> Optional[Moves]:
        """Drop finished sentences, and continue the others with their K best candidates that do not end.

        Args:
            candidates: N x n
            ending: the result of `finish`
            done: the finished sentences, N, apart from sentences at their greatest length; None: no sentence

        Returns:
            the moves of the remaining sentences; None: all remain
        """
        moves = None
        if self.some_ended:
            done = self._with_longest(ending, done)
        if done is not None and bool(done.any()):
            left, moves = self._remove(done)
            candidates, ending = candidates.of(left), ending[left]
        if self.count:
            assert self.position < self.longest, f"{self.position} < {self.longest}"
            self._advance(candidates, ending)
        return moves

    def best(self) -> list[list[Hypothesis]]:
        """Return the K best finished hypotheses of each sentence of the batch, the best first."""
        found: list[list[Hypothesis]] = [[] for _ in range(len(self.tokens))]
        nothing = torch.empty(0)
        for sentences, ended in self.results:
            # Outside of the search's inference mode, copies are tensors that gradients may flow through.
            each = [values.clone().unbind() for values in ended.values()]
            for sentence, *values in zip(sentences, *each):
                found[sentence].append({"attention": nothing, **dict(zip(ended, values)), "alignment": nothing})
        in_order = (sorted(hypotheses, key=lambda hypothesis: -float(hypothesis["score"])) for hypotheses in found)
        return [hypotheses[: self.beam] for hypotheses in in_order]

    def _mask(self, hypotheses: int) -> Tensor:
        """Return `Step.mask` for the number of hypotheses."""
        ancestors = self.ancestors[: self.count, :hypotheses, : self.position + 1].flatten()
        mask = self.hidden.index_select(0, ancestors).view(self.count, hypotheses, -1)
        missing = REGISTER - mask.size(-1)
        return F.pad(mask, (0, missing), value=-math.inf) if missing > 0 else mask

    def _with_longest(self, ending: Tensor, done: Optional[Tensor]) -> Optional[Tensor]:
        """Return the finished sentences, N, together with sentences that end at their greatest length."""
        if self.longest_of is not None:
            longest = (self.position >= self.longest_of[self.sentence]) & ending[:, : self.beam].any(1)
        elif self.position == self.longest:
            longest = ending[:, : self.beam].any(1)
        else:
            return done
        return longest if done is None else longest | done

    def _collect(self, row: Tensor, place: Tensor, total: Tensor) -> None:
        """Keep the results of hypotheses that end: their rows, their places, and their sums, E each."""
        before = torch.arange(self.position + 1, device=row.device)
        path = self.ancestors[row, place, : self.position + 1]  # E x P
        entry = row.unsqueeze(-1), before, path
        tokens = torch.cat([self.tokens[entry][:, 1:], torch.full_like(row, self.eos).unsqueeze(-1)], dim=1)
        sums = torch.cat([self.sums[entry][:, 1:], total.unsqueeze(-1)], dim=1)
        scores = sums.clone()
        scores[:, 1:] = sums[:, 1:] - sums[:, :-1]
        received = None
        if self.coverage is not None and self.coverage.received is not None:
            received = self.coverage.received[row, place]  # E x S
        score = self.score(total, self.position + 1, received)
        self.best_score.scatter_reduce_(0, row, score, "amax")
        ended = {"tokens": tokens, "score": score, "positional_scores": scores}
        if self.attention is not None:
            ended["attention"] = self.attention[entry].transpose(1, 2)  # E x S x P
        self.results.append((self.sentence[row].tolist(), ended))

    def _remove(self, done: Tensor) -> tuple[Tensor, Moves]:
        """Continue without the sentences that are done, N; return where those left were, and how they have moved."""
        count = int((~done).sum())
        holes, movers = done[:count].nonzero()[:, 0], (~done[count:]).nonzero()[:, 0] + count
        for name in ("sentence", "tokens", "sums", "ancestors", "ignored", "finished", "best_score", "attention"):
            tensor = getattr(self, name)
            if tensor is not None:
                move(tensor, holes, movers)
        left = torch.arange(count, device=done.device)
        left[holes] = movers
        self.count = count
        self.sentence, self.finished, self.best_score = (
            kept[:count] for kept in (self.sentence, self.finished, self.best_score)
        )
        if self.coverage is not None:
            self.coverage.keep(left)
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
