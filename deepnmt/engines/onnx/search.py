"""Beam search in numpy, with the results of the package's own (`deepnmt/search/`), which are fairseq's.

Shapes: N unfinished sentences; M hypotheses of each, 1 in the first step, then the beam K; n best types of each
hypothesis. There are c candidates, 2 K except in tiny vocabularies, and P positions so far. E entries are hypotheses
of all steps, from the single one of the first step on.

For a single sentence, calls of numpy take a tenth of the time. The usual step, in which no hypothesis ends, has few.
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
        position: of these tokens, from 0
        mask: 0 where a hypothesis descends from an entry, this step's included, else -inf: N x M x E
        parents: the row NM of the previous step that each one continues, in a row
        asked: types whose log-probabilities are always wanted, N x M
        best: n
    """

    tokens: Integers
    position: int
    mask: Floats
    parents: Integers
    asked: Integers
    best: int


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
        total: the log-probability
    """

    score: float
    types: list[int]
    total: float


@dataclass(frozen=True)
class Limits:
    """The limits of the search.

    Attributes:
        beam: K
        longest: greatest number of types before a hypothesis's end symbol
        lenpen: exponent of the length in the divisor of scores
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


class Hypotheses:
    """The hypotheses of a batch, under fairseq's rules."""

    def __init__(self, sentences: int, limits: Limits) -> None:
        self.limits = limits
        # Of V types, padding is never chosen; fairseq limits the beam alike.
        self.beam = min(limits.beam, limits.types - 1)
        self.found: list[list[Found]] = [[] for _ in range(sentences)]
        self.sentence = np.arange(sentences)  # N, their numbers in the batch
        self.rows = self.sentence[:, np.newaxis]  # N x 1
        self.prefixes = np.full((sentences, 1, 1), END)  # N x M x P, the first token included
        self.mask: Floats = np.zeros((sentences, 1, 1), dtype=np.float32)  # N x M x E
        self.parents = self.sentence  # NM
        self.sums: Floats = np.zeros((sentences, 1), dtype=np.float32)  # N x M
        # Empty places, N x K, since a tiny vocabulary has too few candidates for all; None: there are none.
        self.ignored: Optional[Flags] = None
        # The mask of new entries, N x K x K, each of which is of one hypothesis.
        new = np.full((sentences, self.beam, self.beam), -math.inf, dtype=np.float32)
        new[:, range(self.beam), range(self.beam)] = 0
        self.new: Floats = new

    @property
    def count(self) -> int:
        """Return the number of unfinished sentences."""
        return len(self.sentence)

    @property
    def length(self) -> int:
        """Return the number of types in the hypotheses."""
        return int(self.prefixes.shape[2]) - 1

    def step(self) -> Step:
        """Return the inputs of the next prediction."""
        tokens = self.prefixes[:, :, -1]
        # Padding is among the best types, or the end symbol where it is forbidden.
        best = min(2 * self.beam + 2, self.limits.types)
        return Step(tokens, self.length, self.mask, self.parents, np.full(tokens.shape, END), best)

    def extend(self, prediction: Prediction) -> Optional[Move]:
        """Finish and continue hypotheses; return the moves of the remaining sentences, None if all remain."""
        candidates = self._candidates(prediction)
        ending = candidates.types == END
        move, left = None, self.rows
        if ending.any() or self.ignored is not None or self.length == self.limits.longest:
            ending &= candidates.sums != -math.inf
            done = self._finish(candidates, ending)
            if done.any():
                count = int((~done).sum())
                move = Move(count, np.flatnonzero(done[:count]), np.flatnonzero(~done[count:]) + count)
                left = move.of(np.arange(self.count))[:, np.newaxis]
            candidates = self._continuing(candidates, ending, left)
        self._advance(candidates, left)
        return move

    def _candidates(self, prediction: Prediction) -> Candidates:
        log_probs, types = prediction.log_probs, prediction.types
        if self.length == self.limits.longest:
            # However unlikely the end is.
            log_probs, types = prediction.asked[:, :, np.newaxis], np.full_like(types[:, :, :1], END)
        hypotheses, number = types.shape[1:]
        sums = log_probs + self.sums[:, :, np.newaxis]
        sums[types == PADDING] = -math.inf
        if not self.length:
            sums[types == END] = -math.inf
        # As fairseq treats a log-probability that is not a number.
        sums = np.fmax(sums, np.float32(-math.inf)).reshape(self.count, -1)
        size = min(2 * self.beam, hypotheses * self.limits.types - 1)
        missing = size - sums.shape[1]
        if missing > 0:
            sums = np.pad(sums, ((0, 0), (0, missing)), constant_values=-math.inf)
        order = (-sums).argsort(axis=1, kind="stable")[:, :size]
        inside = np.minimum(order, hypotheses * number - 1) if missing > 0 else order
        types = types.reshape(self.count, -1)
        return Candidates(sums[self.rows, order], types[self.rows, inside], inside // number)

    def _finish(self, candidates: Candidates, ending: Flags) -> Flags:
        """Collect the hypotheses that the K best candidates end; return which sentences are finished, N."""
        if self.ignored is not None:
            ending[:, : self.beam] &= ~self.ignored
        penalty = (self.length + 1) ** self.limits.lenpen
        for row, column in np.argwhere(ending[:, : self.beam]):
            found = self.found[self.sentence[row]]
            if len(found) < self.beam:  # the better ones come first
                types = self.prefixes[row, candidates.places[row, column], 1:].tolist()
                total = candidates.sums[row, column]
                found.append(Found(float(total / penalty), types, float(total)))
        if self.length == self.limits.longest:
            return np.ones(self.count, dtype=bool)
        return np.array([len(self.found[number]) == self.beam for number in self.sentence], dtype=bool)

    def _continuing(self, candidates: Candidates, ending: Flags, left: Integers) -> Candidates:
        """Return the K best candidates of the remaining sentences, N x 1, that do not end a hypothesis."""
        if self.ignored is not None:
            ending[:, : self.beam] |= self.ignored
        size = ending.shape[1]
        rank = np.arange(size) + size * ending[left[:, 0]]
        chosen = np.argsort(rank, axis=1)[:, : self.beam]  # N x K
        # If there are 2 K candidates, no more than K end their hypotheses.
        ignored = rank[self.rows[: len(left)], chosen] >= size
        self.ignored = ignored if ignored.any() else None
        sums, types, places = candidates
        return Candidates(sums[left, chosen], types[left, chosen], places[left, chosen])

    def _advance(self, candidates: Candidates, left: Integers) -> None:
        """Make the K first candidates the new hypotheses of the remaining sentences, N x 1 of the former ones."""
        places, count = candidates.places[:, : self.beam], len(left)
        self.parents = (left * self.sums.shape[1] + places).reshape(-1)
        types = candidates.types[:, : self.beam, np.newaxis]
        self.prefixes = np.concatenate([self.prefixes[left, places], types], axis=2)
        self.mask = np.concatenate([self.mask[left, places], self.new[:count]], axis=2)
        self.sums = candidates.sums[:, : self.beam]
        if count < self.count:
            self.sentence, self.rows = self.sentence[left[:, 0]], self.rows[:count]
