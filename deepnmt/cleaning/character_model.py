"""How usual the characters of a line are for its side of the corpus: trigrams of characters, learnt from the corpus.

With counts n of the characters c after a, b, and `P(c) = (n(c) + 0.1) / (N + 0.1 B)`, B the size of the table:

    P(c | a b) = (n(a b c) + 2 P(c)) / (n(a b) + 2)
    h = - mean log P of a line's characters
    z = (h - median h) sqrt(characters) / sigma

Sigma is half the distance between the 16th and the 84th percentile of `(h - median h) sqrt(characters)`, so that faulty
lines do not widen it. Odd characters have a high z. A line of the other side's language has a lower h by the other
side's model than by its own, and a line of a third language much the same h by both; good lines are far from that.
Counts are kept in tables by hashes of the characters: a collision adds two counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SINGLE, PAIR, TRIPLE = 1 << 16, 1 << 18, 1 << 21  # sizes of the tables
WEIGHT, FLOOR = 2.0, 0.1
SIGMA = (15.87, 50.0, 84.13)  # percentiles: one standard deviation below the median, the median, one above


@dataclass(frozen=True)
class CharacterModel:
    """Counts of characters and of their pairs and triples, by hash, and the spread of h over the corpus.

    Attributes:
        singles: counts of characters
        pairs: counts of the two characters before one
        triples: counts of three characters
        middle: median of h
        sigma: of `(h - middle) sqrt(characters)`
    """

    singles: NDArray[np.float32]
    pairs: NDArray[np.float32]
    triples: NDArray[np.float32]
    middle: float = 0.0
    sigma: float = 1.0

    @classmethod
    def learn(cls, lines: Sequence[str]) -> CharacterModel:
        """Return the model of some lines."""
        singles, pairs, triples = (
            np.bincount(hashes, minlength=size).astype(np.float32)
            for hashes, size in zip(_hashes(_Text(lines)), (SINGLE, PAIR, TRIPLE))
        )
        plain = cls(singles, pairs, triples)
        entropies, lengths = plain.entropies(lines)
        some = lengths > 0
        if not some.any():
            return plain
        middle = float(np.median(entropies[some]))
        low, _, high = np.percentile((entropies - middle)[some] * np.sqrt(lengths[some]), SIGMA)
        return cls(singles, pairs, triples, middle, max(float(high - low) / 2, 1e-6))

    def entropies(self, lines: Sequence[str]) -> tuple[Floats, NDArray[np.int64]]:
        """Return h of each line, 0 where it is empty, and its number of characters."""
        text = _Text(lines)
        single, pair, triple = _hashes(text)
        usual = (self.singles[single] + FLOOR) / (self.singles.sum(dtype=np.float64) + FLOOR * SINGLE)
        chance = (self.triples[triple] + WEIGHT * usual) / (self.pairs[pair] + WEIGHT)
        sums = np.concatenate([[0.0], np.cumsum(-np.log(chance))])
        ends = np.cumsum(text.lengths)
        return (sums[ends] - sums[ends - text.lengths]) / np.maximum(text.lengths, 1), text.lengths

    def __call__(self, lines: Sequence[str]) -> Floats:
        """Return z of each line; 0 where it is empty."""
        entropies, lengths = self.entropies(lines)
        return (entropies - self.middle) * np.sqrt(lengths) / self.sigma


class _Text:
    """Lines as code points in lower case, each after two line feeds.

    Attributes:
        codes: all code points
        lengths: of each line
        places: of the lines' own characters in `codes`
    """

    def __init__(self, lines: Sequence[str]) -> None:
        lower = [line.lower() for line in lines]
        self.lengths = np.array([len(line) for line in lower], dtype=np.int64)
        joined = "".join(f"\n\n{line}" for line in lower)
        self.codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        own = np.ones(len(self.codes), dtype=bool)
        starts = np.cumsum(self.lengths + 2) - self.lengths
        own[starts - 1] = own[starts - 2] = False
        self.places = np.flatnonzero(own)


def _hashes(text: _Text) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Return hashes of each character, of the two before it, and of all three."""
    first, second, third = (text.codes[text.places - back] for back in (2, 1, 0))
    pair = first * np.uint32(2654435761) + second * np.uint32(2246822519)
    triple = pair * np.uint32(3266489917) + third * np.uint32(668265263)
    # The upper bits of such a product are the well mixed ones.
    return third % np.uint32(SINGLE), pair >> np.uint32(14), triple >> np.uint32(11)
