"""Texts in subwords and their numbers, written from the pieces of distinct words.

The numbers of a block's words become the numbers of its pieces, and these become types of the dictionary and the bytes
of the text. Only arrays are gathered; no word is looked at again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepnmt.console import whole_file
from deepnmt.preparation.numbered_text import MANY, NumberedText
from deepnmt.preparation.stage_bar import Done, unseen
from deepnmt.text.dictionary import END
from deepnmt.text.in_order import blocks, in_order
from deepnmt.text.index_file import UNKNOWN, Binarised, kind_for, write_numbers
from deepnmt.text.subwords import Subwords, pieces_of

WORDS = 5_000
Numbers = NDArray[np.integer[Any]]


class Rows:
    """Rows of different lengths, one after the other in an array."""

    def __init__(self, values: Numbers, lengths: Numbers) -> None:
        self.values, self.lengths = values, lengths
        self._begins = np.cumsum(lengths) - lengths

    def gathered(self, rows: Numbers) -> Numbers:
        """Return the values of some rows."""
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        found: Numbers = self.values[np.arange(ends[-1]) + np.repeat(self._begins[rows] - ends + lengths, lengths)]
        return found


@dataclass(frozen=True)
class Pieces:
    """The pieces of the distinct words of a text.

    Attributes:
        names: names of the distinct pieces; the first one ends a line
        numbers: numbers of the pieces of each word; the first word ends a line
    """

    names: list[str]
    numbers: Rows

    def counts(self, words: NDArray[np.int64]) -> dict[str, int]:
        """Return how often each piece occurs, by the counts of the words."""
        uses = np.repeat(words, self.numbers.lengths[1:])
        found = np.bincount(self.numbers.values[1:], uses, len(self.names))
        return dict(zip(self.names[1:], map(int, found[1:].tolist())))


def learnt_pieces(numbers: Sequence[int], symbols: Numbers, names: Sequence[str]) -> list[Pieces]:
    """Return the pieces of texts' words as merges have left them; see `learn_pairs`.

    Args:
        numbers: numbers of words of the texts
        symbols: symbols of all words, with 0 after each word
        names: texts of the symbols
    """
    made = []
    for cut in np.split(symbols, (np.flatnonzero(symbols == 0) + 1)[np.cumsum(numbers) - 1])[:-1]:
        table, lengths = {"\n": 0}, np.zeros(len(names), np.int64)
        found: list[int] = []
        for symbol in np.flatnonzero(np.bincount(cut))[1:].tolist():
            pieces = pieces_of(names[symbol])
            found += [table.setdefault(piece, len(table)) for piece in pieces]
            lengths[symbol] = len(pieces)
        values = Rows(np.array(found, np.int32), lengths).gathered(cut)
        ends = np.cumsum(lengths[cut])[cut == 0]
        sizes = np.diff(ends, prepend=0)
        made.append(Pieces(list(table), Rows(np.append(np.int32(0), values), np.append(1, sizes))))
    return made


def cut_words(texts: Sequence[tuple[NumberedText, Subwords]], workers: int, done: Done = unseen) -> list[Pieces]:
    """Return the pieces of the words of texts.

    Args:
        texts: texts, each with the function that cuts its words
        workers: maximum number of processes
        done: told of the parts that are done
    """
    total = sum(len(text.words.counts) for text, _ in texts)
    items = ((number, part) for number, (text, _) in enumerate(texts) for part in blocks(text.words.distinct(), WORDS))
    pool = min(workers, 1 + sum(len(text.words.text) for text, _ in texts) // MANY)
    results = in_order(partial(_cutter, [cutter for _, cutter in texts]), items, pool)
    made: list[Pieces] = []
    result = next(results, None)
    for number in range(len(texts)):
        table = {"\n": 0}
        numbers, lengths = [np.zeros(1, np.int32)], [np.ones(1, np.int64)]
        while result is not None and result[0] == number:
            words = result[1].split("\n")
            done(len(words) / total)
            pieces = result[1].replace("\n", " ").split(" ")
            numbers.append(np.fromiter((table.setdefault(each, len(table)) for each in pieces), np.int32, len(pieces)))
            lengths.append(np.fromiter((word.count(" ") for word in words), np.int64, len(words)) + 1)
            result = next(results, None)
        made.append(Pieces(list(table), Rows(np.concatenate(numbers), np.concatenate(lengths))))
    return made


def _cutter(cutters: Sequence[Subwords]) -> Callable[[tuple[int, list[str]]], tuple[int, str]]:
    """Return the function that cuts words of a text; it returns a line of subwords for each."""

    def cut(item: tuple[int, list[str]]) -> tuple[int, str]:
        number, words = item
        return number, "\n".join(cutters[number].of_words(words))

    return cut


@dataclass(frozen=True)
class Output:
    """A text to write.

    Attributes:
        source: the text in numbers
        pieces: pieces of its words
        text: file of its subwords
        prefix: prefix of the numbers' files; None: none are written
        types: types of the dictionary
    """

    source: NumberedText
    pieces: Pieces
    text: Path
    prefix: Path | None = None
    types: Sequence[str] = ()


def write_texts(outputs: Sequence[Output], workers: int, done: Done = unseen) -> list[Binarised]:
    """Write texts in subwords, and the numbers of their types; return the counts of each.

    Args:
        outputs: texts to write
        workers: maximum number of processes
        done: told of the parts that are done

    Raises:
        UserError: the disk is full
    """
    items = (
        (number, 4 * (end - size), size)
        for number, output in enumerate(outputs)
        for size, end in zip(output.source.blocks, accumulate(output.source.blocks))
    )
    total = sum(sum(output.source.blocks) for output in outputs)
    pool = min(workers, 1 + 4 * total // MANY)
    results = in_order(partial(_gatherer, outputs), items, pool)
    counts = []
    for output in outputs:
        found = Binarised()

        def written(output: Output = output, found: Binarised = found) -> Iterator[tuple[Numbers, list[int]]]:
            with whole_file(output.text) as temporary, temporary.open("wb") as file:
                for size in output.source.blocks:
                    text, numbers, lengths, unknown = next(results)
                    file.write(text)
                    found.sentences += len(lengths)
                    found.tokens += int(lengths.sum())
                    found.unknown += unknown
                    done(size / total)
                    yield numbers, lengths.tolist()

        if output.prefix is None:
            for _ in written():
                pass
        else:
            write_numbers(str(output.prefix), kind_for(len(output.types)), written())
        counts.append(found)
    return counts


def _gatherer(
    outputs: Sequence[Output],
) -> Callable[[tuple[int, int, int]], tuple[bytes, Numbers, Numbers, int]]:
    """Return the function of a block, which gives text, numbers of types, lengths of sentences, and unknown types."""
    gatherers: dict[int, _Gatherer] = {}

    def gather(item: tuple[int, int, int]) -> tuple[bytes, Numbers, Numbers, int]:
        number, begin, size = item
        if number not in gatherers:
            gatherers.clear()
            gatherers[number] = _Gatherer(outputs[number])
        return gatherers[number](begin, size)

    return gather


class _Gatherer:
    """Gathers the subwords of blocks of a text."""

    def __init__(self, output: Output) -> None:
        self.output = output
        # With the space before each; those at the beginnings of lines are taken out again.
        names = [b"\n", *(f" {name}".encode() for name in output.pieces.names[1:])]
        self.signs = Rows(np.frombuffer(b"".join(names), np.uint8), np.array(list(map(len, names))))
        table = {name: number for number, name in enumerate(output.types)}
        kind = kind_for(len(output.types))
        self.types = np.array([END, *(table.get(name, UNKNOWN) for name in output.pieces.names[1:])], kind)

    def __call__(self, begin: int, size: int) -> tuple[bytes, Numbers, Numbers, int]:
        """Return the results of `_gatherer` for a number of words from a place in their file."""
        words = np.fromfile(self.output.source.path, np.uint32, size, offset=begin)
        pieces = self.output.pieces.numbers.gathered(words)
        text = self.signs.gathered(pieces).tobytes().replace(b"\n ", b"\n").removeprefix(b" ")
        numbers = self.types[pieces]
        lengths = np.diff(np.flatnonzero(pieces == 0), prepend=-1).astype(np.int32)
        return text, numbers, lengths, int((numbers == UNKNOWN).sum())
