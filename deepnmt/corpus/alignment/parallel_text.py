"""Two texts whose lines are pairs, as words, and the numbers of the words of a side."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deepnmt.console import whole_file
from deepnmt.text.lines import read_lines
from deepnmt.text.words import Words, spread, words_of

Numbers = npt.NDArray[np.int32]


class WordNumbers:
    """The words from which a table is learnt, numbered as they first occur, and one number above for all others."""

    def __init__(self, words: Iterable[str]) -> None:
        self.number = {word: number for number, word in enumerate(words)}

    @property
    def unknown(self) -> int:
        """The number of a word that was not learnt from."""
        return len(self.number)

    def __len__(self) -> int:
        """Return the count of numbers, including the number of unknown words."""
        return len(self.number) + 1

    def encode(self, words: Sequence[str]) -> Numbers:
        """Return the numbers of words."""
        get, unknown = self.number.get, self.unknown
        return np.fromiter((get(word, unknown) for word in words), np.int32, len(words))

    def words(self) -> list[str]:
        """Return the words by their numbers."""
        return list(self.number)

    def write(self, path: Path) -> None:
        """Write the words, one a line."""
        with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{word}\n" for word in self.number)

    @classmethod
    def read(cls, path: Path) -> "WordNumbers":
        """Return the text that `write` has written."""
        return cls(line[:-1] for line in read_lines(path))


@dataclass(frozen=True)
class ParallelText:
    """The files of a source and a target.

    `raw` text is not tokenised: words and signs are told apart here, and case is ignored.
    """

    source: Path
    target: Path
    raw: bool = False

    def words(self, line: str) -> Words:
        """Return the words of a line."""
        return words_of(line, self.raw)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of both sides."""
        return zip(read_lines(self.source), read_lines(self.target))

    def spread(self, number: int, total: int) -> Iterator[tuple[Words, Words]]:
        """Yield the words of `number` of the `total` pairs, evenly spread over the text; of all if there are fewer."""
        for source, target in spread(self.pairs(), number, total):
            yield self.words(source), self.words(target)
