"""Scores of pairs that other tools have written: a line for each pair, numbers with tabs between them.

A first line that is not of numbers names the columns, as in what `clean --score` writes. Other columns have the
numbers 1, 2, ... as their names.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deepnmt.corpus.cleaning.corpus_index import FileIndex
from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines


@dataclass(frozen=True)
class Header:
    """The columns of a file.

    Attributes:
        names: of the columns
        lines: 1 if the first line has the names, else 0
    """

    names: tuple[str, ...]
    lines: int

    @classmethod
    def of(cls, path: Path) -> "Header":
        """Return the columns of a file. Raises `UserError` if it is empty."""
        cells = next(read_lines(path), "").rstrip("\r\n").split("\t")
        if cells == [""]:
            raise UserError(f"{path}: must have a number a line, but begins with an empty one")
        if all(map(_is_number, cells)):
            return cls(tuple(str(place) for place in range(1, len(cells) + 1)), 0)
        return cls(tuple(cells), 1)

    def place(self, path: Path, column: str) -> int:
        """Return where a column is, from 0; the only one has no need of a name. Raises `UserError` if it is none."""
        if not column and len(self.names) == 1:
            return 0
        if column not in self.names:
            has = f"but is '{column}'" if column else "but is not given"
            raise UserError(f"{path}: the column must be one of {', '.join(self.names)}, {has}")
        return self.names.index(column)


@dataclass(frozen=True)
class ScoreColumn:
    """A column of a file of scores.

    Attributes:
        index: of the file
        place: of the column, from 0
    """

    index: FileIndex
    place: int

    def read(self, chunk: int) -> NDArray[np.float32]:
        """Return the scores of a chunk. Raises `UserError` with the number of a line that has none."""
        scores = np.empty(len(self.index.lines_of(chunk)), dtype=np.float32)
        for row, line in enumerate(self.index.read_text(chunk)):
            cells = line.rstrip("\r").split("\t")
            try:
                scores[row] = float(cells[self.place])
            except (ValueError, IndexError):
                number = self.index.lines_of(chunk)[row] + self.index.skipped + 1
                has = cells[self.place][:40] if self.place < len(cells) else "missing"
                raise UserError(
                    f"{self.index.path}:{number}: column {self.place + 1} must be a number, but is {has}"
                ) from None
        return scores


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
