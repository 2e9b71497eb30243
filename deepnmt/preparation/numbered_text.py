"""Texts in tokens as numbers of their distinct words, so that each word is worked on once.

A file has the numbers of a text's words; 0 ends a line, and the words are numbered from 1 as they first occur. Blocks
of lines are numbered by themselves, in any process, and then joined.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deepnmt.console import whole_file
from deepnmt.preparation.stage_bar import Done, unseen
from deepnmt.text.in_order import Block, in_order, lines_of, read_blocks

LINES = 10_000
# Bytes that are worth another process.
MANY = 1 << 20
Numbers = NDArray[np.uint32]


class Words(NamedTuple):
    """The distinct words of a text.

    Attributes:
        source: file of the text
        text: the words, each ended by a line feed
        counts: how often each of them occurs
    """

    source: Path
    text: str
    counts: NDArray[np.int64]

    def distinct(self) -> list[str]:
        """Return the words as a list."""
        return self.text.split("\n")[:-1]


class NumberedText(NamedTuple):
    """A text in tokens.

    Attributes:
        path: file of the numbers of its words, each of four bytes
        words: the distinct words in the order of their numbers
        blocks: for each block of whole lines, how many numbers it has
    """

    path: Path
    words: Words
    blocks: list[int]


def number_texts(texts: Sequence[Path], folder: Path, workers: int, done: Done = unseen) -> list[NumberedText]:
    """Return numbered texts.

    Args:
        texts: texts in tokens
        folder: folder of the new files, which are named as the texts are
        workers: maximum number of processes
        done: told of the parts that are done

    Raises:
        UserError: a line is not UTF-8, or the disk is full
    """
    blocks = ((text, block) for text in texts for block in read_blocks([text], LINES))
    size = sum(text.stat().st_size for text in texts)
    pool = min(workers, 1 + size // MANY)
    results = in_order(_numberer, blocks, pool)
    found = []
    result = next(results, None)
    for text in texts:
        path = folder / f"{text.name}.numbers"
        with whole_file(path) as temporary, temporary.open("wb") as file:
            joiner = _Joiner(file)
            while result is not None and result[0] == text:
                joiner.add(*result[1:-1])
                done(result[-1] / size)
                result = next(results, None)
        found.append(NumberedText(path, joiner.words(text), joiner.blocks))
    return found


def _numberer() -> Callable[[tuple[Path, Block]], tuple[Path, str, Numbers, NDArray[np.int64], int]]:
    return _numbered


def _numbered(item: tuple[Path, Block]) -> tuple[Path, str, Numbers, NDArray[np.int64], int]:
    """Return the text, and a block's distinct words, each ended by a line feed, numbers, their counts, and bytes."""
    text, (first, (block,)) = item
    # A control character, which no text in tokens has.
    tokens = " \0 ".join([*lines_of(block, str(text), first), ""]).split()
    table = defaultdict(count(1).__next__, {"\0": 0})
    numbers = np.fromiter(map(table.__getitem__, tokens), np.uint32, len(tokens))
    counts = np.bincount(numbers)
    del table["\0"]
    return text, "\n".join([*table, ""]), numbers, counts, len(block)


class _Joiner:
    """Joins the blocks of a text, whose numbers it writes."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.blocks = file, list[int]()
        self.table = defaultdict[str, int](count(1).__next__)
        self.counts = np.zeros(1 << 10, np.int64)

    def add(self, words: str, numbers: Numbers, counts: NDArray[np.int64]) -> None:
        """Add a block."""
        table = self.table
        place = [table[word] for word in words.split("\n")[:-1]]
        if len(table) >= len(self.counts):
            self.counts = np.concatenate((self.counts, np.zeros(max(len(table), len(self.counts)), np.int64)))
        places = np.array([0, *place], np.uint32)
        self.counts[places] += counts
        self.file.write(places[numbers].tobytes())
        self.blocks.append(len(numbers))

    def words(self, source: Path) -> Words:
        """Return the words of all blocks, which are forgotten here."""
        words = "\n".join([*self.table, ""])
        counts = self.counts[1 : len(self.table) + 1].copy()
        self.table.clear()
        return Words(source, words, counts)
