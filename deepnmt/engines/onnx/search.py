"""Beam search in numpy, with the results of the package's own (`deepnmt/search/`), which are fairseq's.

Shapes: N unfinished sentences; M hypotheses of each, 1 in the first step, then the beam K; n best types of each
hypothesis. There are c candidates, 2 K except in tiny vocabularies, and P positions so far.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Protocol

import numpy as np
import numpy.typing as npt

from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

PADDING = SPECIAL_SYMBOLS.index("<pad>")


@dataclass(frozen=True)
class Step:
    """The inputs of a prediction.

    Attributes:
        tokens: the newest of each hypothesis, N x M
        ancestors: the path of each hypothesis through the beam, this step included, N x M x P
        parents: the row NM of the previous step that each one continues, in a row
        asked: types whose log-probabilities are always wanted, N x M
        best: n
    """

    tokens: Integers
    ancestors: Integers
    parents: Integers
    asked: Integers
    best: int

    @property
    def position(self) -> int:
        """Return the position of the newest tokens, from 0."""
        return int(self.ancestors.shape[2]) - 1


class Prediction(NamedTuple):
    """The candidates for the next token.

    Attributes:
        log_probs: of the n best types, N x M x n
        types: these types
        asked: log-probabilities of the requested types, N x M
    """

    log_probs: Floats
    types: Integers
    asked: Floats


class Move(NamedTuple):
    """The moves of sentences when others are finished: sentences from `size` on take the places before it.

    Attributes:
        size: number of remaining sentences
        holes: places of finished sentences
        movers: places of the sentences that fill them
    """

    size: int
    holes: Integers
    movers: Integers

    def of(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the remaining part of an array, which is overwritten; sentences are the first axis."""
        array[self.holes] = array[self.movers]
        return array[: self.size]


class Steps(Protocol):
    """Predicts the next tokens, and keeps the necessary state of earlier steps."""

    def __call__(self, step: Step) -> Prediction:
        """Return the prediction for a step."""

    def keep(self, move: Move) -> None:
        """Continue without the sentences that are done."""


class Found(NamedTuple):
    """A finished hypothesis.

    Attributes:
        score: log-probability, the end symbol counted, divided by the length's penalty
        types: without the end symbol
    """

    score: float
    types: list[int]


@dataclass(frozen=True)
class Limits:
    """The limits of the search.

    Attributes:
        beam: K
        longest: greatest number of types before a hypothesis's end symbol
        lenpen: exponent of the length by which scores are divided
        types: of the vocabulary
    """

    beam: int
    longest: int
    lenpen: float
    types: int


def beam_search(steps: Steps, sentences: int, limits: Limits) -> list[list[Found]]:
    """Return the K best finished hypotheses of each sentence, the best first."""
    hypotheses = Hypotheses(sentences, limits)
    while hypotheses.count:
        move = hypotheses.extend(steps(hypotheses.step()))
        if move is not None:
            steps.keep(move)
    return [sorted(found, key=lambda each: -each.score)[: hypotheses.beam] for found in hypotheses.found]


class Candidates(NamedTuple):
    """The best continuations of each sentence's hypotheses, the best first, N x c each.

    Attributes:
        sums: of log-probabilities, the new one included
        types: that each appends
        places: the hypothesis that each continues
    """

    sums: Floats
    types: Integers
    places: Integers

    def of(self, sentences: Integers) -> Candidates:
        """Return the candidates of some sentences, in their order."""
        return Candidates(self.sums[sentences], self.types[sentences], self.places[sentences])


class Hypotheses:
    """The hypotheses of a batch, under fairseq's rules."""

    def __init__(self, sentences: int, limits: Limits) -> None:
        self.limits, self.count = limits, sentences
        # Of V types, padding is never chosen; fairseq limits the beam alike.
        self.beam = min(limits.beam, limits.types - 1)
        self.found: list[list[Found]] = [[] for _ in range(sentences)]
        self.sentence = np.arange(sentences)  # N, their numbers in the batch
        self.prefixes = np.full((sentences, 1, 1), END)  # N x M x P, the first token included
        self.ancestors = np.zeros((sentences, 1, 1), dtype=np.int64)  # N x M x P
        self.parents = np.arange(sentences)  # NM
        self.sums: Floats = np.zeros((sentences, 1), dtype=np.float32)  # N x M
        # Places that hold nothing any more, since a tiny vocabulary has too few candidates for all.
        self.ignored: Flags = np.zeros((sentences, self.beam), dtype=bool)  # N x K

    @property
    def length(self) -> int:
        """Return how many types the hypotheses have."""
        return int(self.prefixes.shape[2]) - 1

    def step(self) -> Step:
        """Return the inputs of the next prediction."""
        tokens = self.prefixes[:, :, -1]
        # Padding is among the best types, or the end symbol where it is forbidden.
        best = min(2 * self.beam + 2, self.limits.types)
        return Step(tokens, self.ancestors, self.parents, np.full_like(tokens, END), best)

    def extend(self, prediction: Prediction) -> Optional[Move]:
        """Finish and continue hypotheses; return how the sentences that are left have moved, None if all are left."""
        candidates = self._candidates(prediction)
        ending = (candidates.types == END) & (candidates.sums != -math.inf)
        ending[:, : self.beam] &= ~self.ignored
        self._finish(candidates, ending[:, : self.beam])
        done = np.array([len(self.found[number]) == self.beam for number in self.sentence], dtype=bool)
        if self.length == self.limits.longest:
            done[:] = True
        move, left = None, np.arange(self.count)
        if done.any():
            count = int((~done).sum())
            move = Move(count, np.flatnonzero(done[:count]), np.flatnonzero(~done[count:]) + count)
            left = move.of(left)
        self._advance(candidates.of(left), ending[left], left)
        return move

    def _candidates(self, prediction: Prediction) -> Candidates:
        log_probs, types = prediction.log_probs, prediction.types
        if self.length == self.limits.longest:
            # However unlikely the end is.
            log_probs, types = prediction.asked[:, :, np.newaxis], np.full_like(types[:, :, :1], END)
        forbidden = types == PADDING
        if not self.length:
            forbidden |= types == END
        hypotheses, number = types.shape[1:]
        allowed = np.where(forbidden, np.float32(-math.inf), log_probs)
        sums = (allowed + self.sums[:, :, np.newaxis]).reshape(self.count, -1)
        # As fairseq treats a log-probability that is not a number.
        sums[np.isnan(sums)] = -math.inf
        size = min(2 * self.beam, hypotheses * self.limits.types - 1)
        missing = size - sums.shape[1]
        if missing > 0:
            sums = np.pad(sums, ((0, 0), (0, missing)), constant_values=-math.inf)
        order = np.argsort(-sums, axis=1, kind="stable")[:, :size]
        inside = np.minimum(order, hypotheses * number - 1)
        rows, flat = np.arange(self.count)[:, np.newaxis], types.reshape(self.count, -1)
        return Candidates(sums[rows, order], flat[rows, inside], inside // number)

    def _finish(self, candidates: Candidates, ending: Flags) -> None:
        penalty = (self.length + 1) ** self.limits.lenpen
        for row, column in np.argwhere(ending):
            found = self.found[self.sentence[row]]
            if len(found) < self.beam:  # the better ones come first
                types = self.prefixes[row, candidates.places[row, column], 1:].tolist()
                found.append(Found(float(candidates.sums[row, column] / penalty), types))

    def _advance(self, candidates: Candidates, ending: Flags, left: Integers) -> None:
        """Let the K best candidates that end no hypothesis be the hypotheses of the sentences that are left."""
        count, size = ending.shape
        ending[:, : self.beam] |= self.ignored[left]
        rank = np.arange(size) + size * ending
        chosen = np.argsort(rank, axis=1)[:, : self.beam]  # N x K
        # If there are 2 K candidates, no more than K end their hypotheses.
        row = np.arange(count)[:, np.newaxis]
        self.ignored = rank[row, chosen] >= size
        rows, places, types = left[:, np.newaxis], candidates.places[row, chosen], candidates.types[row, chosen]
        self.parents = (rows * self.sums.shape[1] + places).reshape(-1)
        self.prefixes = np.concatenate([self.prefixes[rows, places], types[:, :, np.newaxis]], axis=2)
        own = np.broadcast_to(np.arange(self.beam), places.shape)[:, :, np.newaxis]
        self.ancestors = np.concatenate([self.ancestors[rows, places], own], axis=2)
        self.sums = candidates.sums[row, chosen]
        self.sentence, self.count = self.sentence[left], count
