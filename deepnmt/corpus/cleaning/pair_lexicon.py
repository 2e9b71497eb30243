"""How well the words of both sides translate each other, by the lexicons that `deepnmt align` writes.

For a target of n words y, a source of m words x, and t of the lexicon, IBM model 1 without alignment:

    mean over y of log(1/m sum_x t(y|x) + 0.0001)

and the same the other way. It is computed for a chunk at once, by a product of sparse matrices: the words of the
sources times the translations of words. The words of the targets are picked from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from deepnmt.corpus.alignment.align_job import LEXICONS
from deepnmt.corpus.alignment.lexicon import HEADERS
from deepnmt.corpus.cleaning.pair_chunk import Side
from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines

LEAST = 0.01  # rarer translations say little and take memory
FLOOR = 1e-4
Words = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Lexicon:
    """The translations of words: numbers of both, and the probability of each translation, words x translations."""

    words: dict[str, int]
    others: dict[str, int]
    table: sparse.csr_matrix

    @classmethod
    def read(cls, path: Path, header: str) -> "Lexicon":
        """Return the lexicon in a file. Raises `UserError` for any other file."""
        words: dict[str, int] = {}
        others: dict[str, int] = {}
        rows, columns, values = [], [], []
        for number, line in enumerate(read_lines(path), start=1):
            cells = line.rstrip("\n").split("\t")
            if number == 1:
                if cells != header.split("\t"):
                    raise UserError(f"{path}:1: must be the columns {header.split()}, but is '{line.strip()[:60]}'")
                continue
            try:
                word, other, value = cells[0], cells[1], float(cells[2])
            except (IndexError, ValueError):
                must = "must be two words and a probability"
                raise UserError(f"{path}:{number}: {must}, but is '{line.strip()[:60]}'") from None
            if value >= LEAST:
                rows.append(words.setdefault(word, len(words)))
                columns.append(others.setdefault(other, len(others)))
                values.append(value)
        if not values:
            raise UserError(f"{path}: contains no translations of words")
        shape = (len(words), len(others))
        return cls(words, others, sparse.csr_matrix((np.array(values, np.float32), (rows, columns)), shape=shape))

    def fit(self, given: Words, found: Words) -> NDArray[np.float64]:
        """Return the mean log probability of the words found of each pair, the other side given."""
        source, target = _counts(given, self.words), _counts(found, self.others)
        lengths = np.array([max(len(words), 1) for words in given])
        chosen = (source @ self.table).multiply(target > 0).tocsr()
        rows = np.repeat(np.arange(len(given)), np.diff(chosen.indptr))
        chosen.data = np.log(chosen.data / lengths[rows] + FLOOR) - np.log(FLOOR)
        sums = np.asarray(chosen.multiply(target).sum(axis=1), dtype=np.float64).ravel()
        means: NDArray[np.float64] = sums / np.array([max(len(words), 1) for words in found]) + np.log(FLOOR)
        return means


@dataclass(frozen=True)
class PairLexicon:
    """The lexicons of both directions."""

    forward: Lexicon
    reverse: Lexicon

    @classmethod
    def read(cls, folder: Path) -> "PairLexicon":
        """Return the lexicons in a folder of `deepnmt align --lexicon`. Raises `UserError` if one is faulty."""
        check_folder(folder)
        return cls(*(Lexicon.read(folder / name, header) for name, header in zip(LEXICONS, HEADERS)))

    def fits(self, side: Side) -> NDArray[np.float64]:
        """Return how well the words of each line are translations of the other side's."""
        return (self.reverse, self.forward)[side.place].fit(side.other.plain, side.plain)


def check_folder(folder: Path) -> None:
    """Raise `UserError` if a folder has no lexicons."""
    for name in LEXICONS:
        if not (folder / name).is_file():
            made_by = "--lexicon must be a folder made by deepnmt align --raw --lexicon"
            raise UserError(f"{made_by}, but {folder / name} is missing")


def _counts(lines: Words, numbers: dict[str, int]) -> sparse.csr_matrix:
    found = [[numbers[word] for word in words if word in numbers] for words in lines]
    starts = np.cumsum([0, *map(len, found)])
    places = np.array([number for words in found for number in words], dtype=np.int32)
    counts = sparse.csr_matrix((np.ones(len(places), np.float32), places, starts), shape=(len(lines), len(numbers)))
    counts.sum_duplicates()
    return counts
