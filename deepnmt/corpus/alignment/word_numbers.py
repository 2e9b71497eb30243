"""Numbers for the words of one side, in the order in which they occur first."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deepnmt.console import whole_file
from deepnmt.text.lines import read_lines

Numbers = npt.NDArray[np.int32]


class WordNumbers:
    """The words from which a table is learnt, and one number above them for all others.

    Args:
        words: different ones
    """

    def __init__(self, words: Iterable[str]) -> None:
        self.number = {word: number for number, word in enumerate(words)}

    @property
    def unknown(self) -> int:
        """The number of a word that was not learnt from."""
        return len(self.number)

    def __len__(self) -> int:
        """Return how many numbers there are, that of unknown words included."""
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
        """Return what `write` has written."""
        return cls(line[:-1] for line in read_lines(path))
