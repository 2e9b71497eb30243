"""The table of a translation model: t(y|x) and t(x|y) for all word pairs that occur together, and for no word (null).

Estimates from the expected numbers c of links, a = c + alpha:

    likelihood   t = c / sum c
    bayes        t = exp(psi(a) - psi(sum a)), the variational mean of log t under a Dirichlet prior (Dyer 2013)
    mean         t = a / sum a, the mean of t under the same posterior; this one sums to 1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

from deepnmt.alignment.links import Keys
from deepnmt.alignment.word_numbers import Numbers

ALPHA = 0.01
# In single precision smaller ones would be zero, and so might be the probability of a whole sentence.
SMALLEST = 1e-30
BLOCK = 1 << 20
LIKELIHOOD, BAYES, MEAN = RULES = ("likelihood", "bayes", "mean")
Probabilities = npt.NDArray[np.float32]
Counts = npt.NDArray[np.float64]


class Tables(NamedTuple):
    """What has been learnt.

    Attributes:
        forward: t(y|x) by key
        reverse: t(x|y) by key
        forward_null: t(y|null) by y
        reverse_null: t(x|null) by x
    """

    forward: Probabilities
    reverse: Probabilities
    forward_null: Probabilities
    reverse_null: Probabilities

    def write(self, folder: Path) -> None:
        """Write the tables to a folder that is being made."""
        folder.mkdir()
        for name, values in self._asdict().items():
            np.save(folder / f"{name}.npy", values)

    @classmethod
    def read(cls, folder: Path) -> Tables:
        """Return what `write` has written; it stays in the files, which all processes share."""
        return cls(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in cls._fields))

    def at(self, places: Numbers) -> tuple[Probabilities, Probabilities]:
        """Return t(y|x) and t(x|y) of some keys; 0 where the place is -1."""
        found = [values[np.maximum(places, 0)] for values in (self.forward, self.reverse)]
        if len(places) and places.min() < 0:
            for values in found:
                values[places < 0] = 0
        return found[0], found[1]


@dataclass(frozen=True)
class WordPairs:
    """The word pairs that occur together.

    Attributes:
        keys: `x * targets + y`, in rising order
        sources: numbers of source words
        targets: numbers of target words
    """

    keys: Keys
    sources: int
    targets: int

    def places(self, keys: Keys) -> Numbers:
        """Return where keys stand; -1 for those that do not occur.

        Args:
            keys: in rising order
        """
        places = np.searchsorted(self.keys, keys)
        places[places == len(self.keys)] = 0
        known = self.keys[places] == keys if len(self.keys) else np.zeros(len(keys), bool)
        return np.where(known, places, -1).astype(np.int32)

    def words(self, start: int, stop: int) -> tuple[Keys, Keys]:
        """Return the source and the target words of a range of keys."""
        x, y = np.divmod(self.keys[start:stop], self.targets)
        return x, y

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of keys, since what is computed for all of them at once would take memory."""
        for start in range(0, len(self.keys), BLOCK):
            yield start, min(start + BLOCK, len(self.keys))

    def uniform(self) -> Tables:
        """Return the tables to begin with."""
        size = len(self.keys)
        return Tables(
            np.full(size, 1 / self.targets, np.float32),
            np.full(size, 1 / self.sources, np.float32),
            np.full(self.targets, 1 / self.targets, np.float32),
            np.full(self.sources, 1 / self.sources, np.float32),
        )

    def estimate(self, counts: Sequence[Counts], rule: str) -> tuple[Tables, float, float]:
        """Return tables from the expected numbers of links, which are forward, reverse, and those of null.

        Returns:
            the tables; and for `bayes`, of each direction, the divergence of the posterior from the prior, else 0
        """
        tables, divergences = [], []
        for side, words in enumerate((self.sources, self.targets)):
            rows, sizes = np.zeros(words), np.zeros(words)
            for start, stop in self.blocks():
                owners = self.words(start, stop)[side]
                rows += np.bincount(owners, counts[side][start:stop], words)
                sizes += np.bincount(owners, minlength=words)
            table = np.empty(len(self.keys), np.float32)
            divergence = 0.0
            for start, stop in self.blocks():
                owners = self.words(start, stop)[side]
                c = counts[side][start:stop]
                table[start:stop] = _estimate(c, rows[owners], sizes[owners], rule)
                divergence += _entries(c, rows[owners], sizes[owners]) if rule == BAYES else 0
            null = counts[2 + side]
            total, size = np.array(null.sum()), np.array(float(len(null)))
            tables.append((table, _estimate(null, total, size, rule).astype(np.float32)))
            if rule == BAYES:
                used = sizes > 0
                divergence += _entries(null, total, size) + _rows(rows[used], sizes[used]) + _rows(total, size)
            divergences.append(divergence)
        (forward, forward_null), (reverse, reverse_null) = tables
        return Tables(forward, reverse, forward_null, reverse_null), divergences[0], divergences[1]


def _estimate(c: Counts, total: Counts, size: Counts, rule: str) -> Counts:
    if rule == LIKELIHOOD:
        t = np.divide(c, total, out=np.zeros_like(c), where=total > 0)
    elif rule == BAYES:
        t = np.exp(digamma(c + ALPHA) - digamma(total + size * ALPHA))
    else:
        t = (c + ALPHA) / (total + size * ALPHA)
    return np.maximum(t, SMALLEST)


def _entries(c: Counts, total: Counts, size: Counts) -> float:
    """Return what the entries of rows add to the divergence of their Dirichlet posterior from the prior."""
    a = c + ALPHA
    return float((c * (digamma(a) - digamma(total + size * ALPHA)) - gammaln(a) + gammaln(ALPHA)).sum())


def _rows(total: Counts, size: Counts) -> float:
    """Return what the rows themselves add."""
    return float((gammaln(total + size * ALPHA) - gammaln(size * ALPHA)).sum())


def union(parts: Iterable[Keys]) -> Keys:
    """Return the different keys of all parts in rising order."""
    # Parts of like size are merged, as the digits of a binary counter are, so that no key is moved often.
    merged: list[Keys] = []
    for part in parts:
        merged.append(part)
        while len(merged) > 1 and len(merged[-2]) <= 2 * len(merged[-1]):
            merged.append(np.union1d(merged.pop(), merged.pop()))
    while len(merged) > 1:
        merged.append(np.union1d(merged.pop(), merged.pop()))
    return merged[0] if merged else np.zeros(0, np.int64)
