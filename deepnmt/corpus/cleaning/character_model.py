"""Likelihood of a line's characters for its side of the corpus: trigrams of characters, learnt from the corpus.

With counts n of the characters c after a, b, and `P(c) = (n(c) + 0.1) / (N + 0.1 B)`, B the size of the table:

    P(c | a b) = (n(a b c) + 2 P(c)) / (n(a b) + 2)
    h = - mean log P of a line's characters
    z = (h - median h) sqrt(characters) / sigma

Sigma is half the distance between the 16th and the 84th percentile of `(h - median h) sqrt(characters)`: faulty lines
do not widen it. Odd characters have a high z. A line of the other side's language has a lower h by the other side's
model than by its own. A line of a third language has about the same h by both. Good lines are far from either. Counts
are kept in tables by hashes of the characters: a collision adds two counts. Lines are arrays of code points, and so
one step counts in all lines of a chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LINE_FEEDS = 2  # before each line


class CodePoints:
    """The characters of lines, each line after two line feeds; `places` leads to the lines' own characters."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lengths = np.array([len(line) for line in lines], dtype=np.int64)
        joined = "".join(f"\n\n{line}" for line in lines)
        self.codes = np.frombuffer(joined.encode("utf-32-le"), dtype=np.uint32)
        own = np.ones(len(self.codes), dtype=bool)
        starts = np.cumsum(self.lengths + LINE_FEEDS) - self.lengths
        own[starts - 1] = own[starts - 2] = False
        self.places = np.flatnonzero(own)

    def sums(self, values: Floats) -> Floats:
        """Return the sum over each line of a value for each of the lines' own characters."""
        total = np.concatenate([[0.0], np.cumsum(values)])
        ends = np.cumsum(self.lengths)
        sums: Floats = total[ends] - total[ends - self.lengths]
        return sums

    def count(self, marked: NDArray[np.bool_]) -> Floats:
        """Return how many characters of each line are marked in a table of all code points."""
        return self.sums(marked[self.codes[self.places]].astype(np.float64))


SINGLE, PAIR, TRIPLE = 1 << 16, 1 << 18, 1 << 21  # sizes of the tables
WEIGHT, FLOOR = 2.0, 0.1
# Of a corpus with most lines alike: half a nat in one character, since the percentiles know of no spread.
LEAST_SIGMA = 0.5
SIGMA = (15.87, 50.0, 84.13)  # percentiles: one standard deviation below the median, the median, one above


@dataclass(frozen=True)
class CharacterModel:
    """Counts of characters and of their pairs and triples, by hash, and the spread of h over the corpus.

    Attributes:
        pairs: counts of the two characters before one
        middle: median of h
        sigma: sigma of `(h - middle) sqrt(characters)`
    """

    singles: NDArray[np.float32]
    pairs: NDArray[np.float32]
    triples: NDArray[np.float32]
    middle: float = 0.0
    sigma: float = 1.0

    @classmethod
    def learn(cls, text: "Trigrams") -> "CharacterModel":
        """Return the model of some lines."""
        singles, pairs, triples = (
            np.bincount(hashes, minlength=size).astype(np.float32)
            for hashes, size in ((text.single, SINGLE), (text.pair, PAIR), (text.triple, TRIPLE))
        )
        plain = cls(singles, pairs, triples)
        entropies, lengths = plain.entropies(text), text.text.lengths
        some = lengths > 0
        if not some.any():
            return plain
        middle = float(np.median(entropies[some]))
        low, _, high = np.percentile((entropies - middle)[some] * np.sqrt(lengths[some]), SIGMA)
        return cls(singles, pairs, triples, middle, max(float(high - low) / 2, LEAST_SIGMA))

    def entropies(self, text: "Trigrams") -> Floats:
        """Return h of each line; 0 where it is empty."""
        usual = (self.singles + FLOOR) / (self.singles.sum(dtype=np.float64) + FLOOR * SINGLE)
        chance = (self.triples[text.triple] + WEIGHT * usual[text.single]) / (self.pairs[text.pair] + WEIGHT)
        sums = text.text.sums(-np.log(chance))
        return sums / np.maximum(text.text.lengths, 1)

    def __call__(self, text: "Trigrams") -> Floats:
        """Return z of each line; 0 where it is empty."""
        lengths = text.text.lengths
        return np.where(lengths, (self.entropies(text) - self.middle) * np.sqrt(lengths) / self.sigma, 0)


class Trigrams:
    """Each character of some lines, the two before it and all three, in small letters, by hashes."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.text = CodePoints([line.lower() for line in lines])
        codes, places = self.text.codes, self.text.places
        first, second, third = (codes[places - back] for back in (2, 1, 0))
        pair = first * np.uint32(2654435761) + second * np.uint32(2246822519)
        triple = pair * np.uint32(3266489917) + third * np.uint32(668265263)
        # The upper bits of such a product are the well mixed ones.
        self.single, self.pair, self.triple = third % np.uint32(SINGLE), pair >> np.uint32(14), triple >> np.uint32(11)
