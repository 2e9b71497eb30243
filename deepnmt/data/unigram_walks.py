"""`--unigram-sampling`: cuts of a word by a unigram model of its pieces (Kudo 2018, ACL, arXiv 1804.10959).

A cut c_1 ... c_k of a word, whose pieces are all in the dictionary, is drawn with probability

    P(c) = prod_i P(c_i)^a / sum over all cuts c' of the word prod_i P(c'_i)^a                                 (58)

The sharpness is a: 0 makes all cuts alike, 1 is the model's distribution, and large values give the best cut. A walk
draws the pieces from the last one to the first. S(b) is the sum of the products over all cuts of the word's first b
characters. With e characters left, the piece from b to e has the probability P(piece)^a S(b) / S(e).
"""

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from deepnmt.data.cut_walks import MISSING, Floats, Integers, Walks, view
from deepnmt.text.subwords import SEPARATOR
from deepnmt.text.unigram import END_OF_WORD, Unigram


class Last(NamedTuple):
    """A possible last piece: its begin in the word, its number in the dictionary, and log of its weight."""

    begin: int
    piece: int
    weight: float


class UnigramWalks(Walks):
    """Walks by a model with log P of pieces, and the sharpness a, above 0.

    A state is a word, a number of characters that are still to be cut, and the pieces after them.
    """

    option = "--unigram-sampling"

    def __init__(self, model: Unigram, types: Mapping[str, int], sharpness: float) -> None:
        self.model, self.sharpness = model, sharpness
        super().__init__(types)

    def forget(self) -> None:
        """Drop all states."""
        super().forget()
        # For each word and each number of its first characters, the possible last pieces of their cuts.
        self.lattices: dict[str, list[list[Last]]] = {}
        # At the places of `following`: the state's number and the cumulative probability of its steps, added.
        self.bounds = array("d")

    def start(self, word: str) -> int:
        """Return the state of a word without pieces."""
        return self._state(word, len(word), ())

    def plain(self, word: str) -> int:
        """Return the final state of the most probable cut."""
        *inner, last = self.model(word)
        names = [piece + SEPARATOR for piece in inner] + [last]
        return self._state(word, 0, tuple(self.types.get(name, MISSING) for name in names))

    def _chosen(self, states: Integers, draws: Floats) -> Integers:
        places: Integers = np.searchsorted(view(self.bounds, np.float64), states + draws)
        # Added to a state's number, a tiny draw may be lost.
        return np.maximum(places - view(self.places)[states], 0)  # type: ignore[no-any-return]

    def _after(self, state: int, choice: int) -> int:
        word, end, pieces = self.cuts[state]
        last = self._lattice(word)[end][choice]
        return self._state(word, last.begin, (last.piece, *pieces))

    def _state(self, word: str, end: int, pieces: tuple[int, ...]) -> int:
        cut = word, end, pieces
        number = self.numbers.get(cut)
        if number is None:
            steps = self._lattice(word)[end] if end else []
            number = self._add(cut, len(steps), () if end else pieces)
            if steps:
                shares = np.exp([step.weight for step in steps])
                cumulative = np.cumsum(shares) / shares.sum()
                # Rounding must not leave a gap below the next state's bounds.
                cumulative[-1] = 1.0
                self.bounds.extend(number + cumulative)
            self.numbers[cut] = number
        return number

    def _lattice(self, word: str) -> list[list[Last]]:
        """Return the possible last pieces of the cuts of a word's first characters, by their number."""
        if word not in self.lattices:
            sums, lattice = [0.0], [list[Last]()]
            for end in range(1, len(word) + 1):
                steps = [
                    Last(begin, piece, sums[begin] + weight)
                    for begin, piece, weight in self._pieces(word, end)
                    if sums[begin] > -math.inf
                ]
                sums.append(float(np.logaddexp.reduce([step.weight for step in steps])) if steps else -math.inf)
                # Relative to the largest, so that the exponentials do not vanish.
                lattice.append([step._replace(weight=step.weight - sums[-1]) for step in steps])
            self.lattices[word] = lattice
        return self.lattices[word]

    def _pieces(self, word: str, end: int) -> Iterator[Last]:
        """Yield the pieces of the dictionary that end after the word's first `end` characters, and their weights."""
        last = end == len(word)
        for begin in range(max(0, end - self.model.longest), end):
            text = word[begin:end]
            log_prob = self.model.log_probs.get(text + END_OF_WORD if last else text)
            number = self.types.get(text if last else text + SEPARATOR)
            if log_prob is not None and number is not None:
                yield Last(begin, number, self.sharpness * log_prob)
