"""The table of a translation model: t(y|x) and t(x|y) for all word pairs that occur together, and for no word (null).

Estimates from the expected numbers c of links, a = c + alpha:

    likelihood   t = c / sum c
    bayes        t = exp(psi(a) - psi(sum a)), the variational mean of log t under a Dirichlet prior (Dyer 2013)
    mean         t = a / sum a, the mean of t under the same posterior; this one sums to 1
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

from deepnmt.corpus.alignment.parallel_text import Numbers
from deepnmt.corpus.distinct import Keys

ALPHA = 0.01
# In single precision smaller ones would be zero, and so might be the probability of a whole sentence.
SMALLEST = 1e-30
BLOCK = 1 << 21
LIKELIHOOD, BAYES, MEAN = RULES = ("likelihood", "bayes", "mean")
Probabilities = npt.NDArray[np.float32]
Counts = npt.NDArray[np.float64]


class Tables(NamedTuple):
    """The learnt tables: t(y|x) and t(x|y) by key, t(y|null) by y, t(x|null) by x."""

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
    def read(cls, folder: Path) -> "Tables":
        """Return the tables that `write` has written; they stay in the files, which all processes share."""
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
    """The word pairs that occur together, by keys `x * targets + y` in rising order, with numbers of words."""

    keys: Keys
    sources: int
    targets: int

    def places(self, keys: Keys) -> Numbers:
        """Return the places of keys in ascending order; -1 for missing ones."""
        places = np.searchsorted(self.keys, keys)
        places[places == len(self.keys)] = 0
        known = self.keys[places] == keys if len(self.keys) else np.zeros(len(keys), bool)
        return np.where(known, places, -1).astype(np.int32)

    def words(self, start: int, stop: int) -> tuple[Keys, Keys]:
        """Return the source and the target words of a range of keys."""
        x, y = np.divmod(self.keys[start:stop], self.targets)
        return x, y

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of keys, since a computation for all of them at once would take memory."""
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

    def estimate(self, counts: Sequence[Counts], rule: str, threads: int = 1) -> tuple[Tables, float, float]:
        """Return tables from the expected numbers of links: forward, reverse, and null links.

        Returns:
            the tables; and for `bayes`, per direction, the divergence of the posterior from the prior, else 0
        """
        with ThreadPoolExecutor(threads) as pool:
            forward, reverse = (self._estimate_side(counts, side, rule, pool) for side in (0, 1))
        return Tables(forward[0], reverse[0], forward[1], reverse[1]), forward[2], reverse[2]

    def _estimate_side(
        self, counts: Sequence[Counts], side: int, rule: str, pool: ThreadPoolExecutor
    ) -> tuple[Probabilities, Probabilities, float]:
        words = (self.sources, self.targets)[side]
        rows, sizes = np.zeros(words), np.zeros(words)

        def add(block: tuple[int, int]) -> tuple[Counts, Counts]:
            owners = self.words(*block)[side]
            found = np.bincount(owners, counts[side][slice(*block)], words), np.bincount(owners, None, words)
            return found[0].astype(np.float64, copy=False), found[1].astype(np.float64)

        # In the order of the blocks, whichever is ready first, so that the sums are always the same.
        for row, size in pool.map(add, self.blocks()):
            rows += row
            sizes += size
        table = np.empty(len(self.keys), np.float32)

        def fill(block: tuple[int, int]) -> float:
            owners = self.words(*block)[side]
            given = counts[side][slice(*block)], rows[owners], sizes[owners]
            table[slice(*block)] = _estimate(*given, rule)
            return _entries(*given) if rule == BAYES else 0.0

        divergence = sum(pool.map(fill, self.blocks()))
        null = counts[2 + side]
        given = null, np.array(null.sum()), np.array(float(len(null)))
        if rule == BAYES:
            used = sizes > 0
            divergence += _entries(*given) + _rows(rows[used], sizes[used]) + _rows(*given[1:])
        return table, _estimate(*given, rule).astype(np.float32), divergence


def _estimate(c: Counts, total: Counts, size: Counts, rule: str) -> Counts:
    if rule == LIKELIHOOD:
        t = np.divide(c, total, out=np.zeros_like(c), where=total > 0)
    elif rule == BAYES:
        t = np.exp(digamma(c + ALPHA) - digamma(total + size * ALPHA))
    else:
        t = (c + ALPHA) / (total + size * ALPHA)
    return np.maximum(t, SMALLEST)


def _entries(c: Counts, total: Counts, size: Counts) -> float:
    """Return the entries' part in the divergence of the rows' Dirichlet posterior from the prior."""
    a = c + ALPHA
    return float((c * (digamma(a) - digamma(total + size * ALPHA)) - gammaln(a) + gammaln(ALPHA)).sum())


def _rows(total: Counts, size: Counts) -> float:
    """Return the part of the rows themselves."""
    return float((gammaln(total + size * ALPHA) - gammaln(size * ALPHA)).sum())


def union(parts: Iterable[Keys]) -> Keys:
    """Return the different keys of all parts in ascending order; each part is in ascending order."""
    # Parts of like size are merged, as the digits of a binary counter are, so that no key is moved often.
    merged: list[Keys] = []
    for part in parts:
        merged.append(part)
        while len(merged) > 1 and len(merged[-2]) <= 2 * len(merged[-1]):
            merged.append(_merge(merged.pop(), merged.pop()))
    while len(merged) > 1:
        merged.append(_merge(merged.pop(), merged.pop()))
    return merged[0] if merged else np.zeros(0, np.int64)


def _merge(one: Keys, other: Keys) -> Keys:
    keys = np.concatenate((one, other))
    # The stable sort finds the two rising runs and merges them in linear time; np.union1d takes ten times as long.
    keys.sort(kind="stable")
    return keys[np.r_[True, keys[1:] != keys[:-1]]] if len(keys) else keys
