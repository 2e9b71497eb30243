"""Files with a line for each pair: where their chunks begin, so that processes can read them independently, and scores.

Scores that other tools have written are numbers with tabs between them. A first line that is not of numbers names the
columns, as in the output of `clean --score`. Other columns have the numbers 1, 2, ... as their names.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deepnmt.errors import UserError
from deepnmt.text.lines import decode_lines, open_file, read_lines, without_mark

BLOCK = 1 << 22


@dataclass(frozen=True)
class FileIndex:
    """The chunks of a file.

    Attributes:
        starts: byte that each chunk begins at, and the end of the file
        size: lines of a chunk
        skipped: lines before the first chunk
    """

    path: Path
    starts: tuple[int, ...]
    lines: int
    size: int
    sha256: str
    skipped: int = 0

    @classmethod
    def of(
        cls, path: Path, size: int, skipped: int = 0, tell: Callable[[int], object] = lambda size: None
    ) -> "FileIndex":
        """Return the index of a file, which is read once; `tell` is called with the bytes of each block that was read.

        Raises `UserError` if it has no lines.
        """
        digest, starts, lines, done, last = hashlib.sha256(), [0], 0, 0, b"\n"
        with open_file(path) as file:
            while block := file.read(BLOCK):
                digest.update(block)
                ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n"))
                # A chunk begins after the line feeds of numbers skipped, skipped + size, ...; they count from 1.
                first = (-(lines + 1 - skipped)) % size if lines + 1 > skipped else skipped - lines - 1
                starts += [done + int(end) + 1 for end in ends[first::size]]
                lines += len(ends)
                done += len(block)
                last = block[-1:]
                tell(len(block))
        lines += last != b"\n"
        if lines <= skipped:
            raise UserError(f"{path} is empty")
        if skipped:
            starts = starts[1:]
        starts = [start for start in starts if start < done]
        return cls(path, (*starts, done), lines - skipped, size, digest.hexdigest(), skipped)

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return len(self.starts) - 1

    def lines_of(self, chunk: int) -> range:
        """Return the numbers of a chunk's lines, from 0."""
        return range(chunk * self.size, min((chunk + 1) * self.size, self.lines))

    def read(self, chunk: int) -> list[bytes]:
        """Return the lines of a chunk, without line feeds and byte order mark. Raises `UserError` for UTF-16."""
        with self.path.open("rb") as file:
            file.seek(self.starts[chunk])
            text = file.read(self.starts[chunk + 1] - self.starts[chunk])
        if self.starts[chunk] == 0:
            text = without_mark(text, str(self.path))
        return text.removesuffix(b"\n").split(b"\n")

    def read_text(self, chunk: int) -> list[str]:
        """Return the lines of a chunk as text. Raises `UserError` with the number of a line that is not UTF-8."""
        first = chunk * self.size + self.skipped
        return list(decode_lines(self.read(chunk), str(self.path), first + 1))


@dataclass(frozen=True)
class Header:
    """The columns of a file; `lines` is 1 if its first line names them, else 0."""

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
        """Return the place of a column, from 0; a single one needs no name. Raises `UserError` if it is missing."""
        if not column and len(self.names) == 1:
            return 0
        if column not in self.names:
            has = f"but is '{column}'" if column else "but is not given"
            raise UserError(f"{path}: the column must be one of {', '.join(self.names)}, {has}")
        return self.names.index(column)


@dataclass(frozen=True)
class ScoreColumn:
    """A column of a file of scores; `place` counts from 0."""

    index: FileIndex
    place: int

    def read(self, chunk: int) -> NDArray[np.float32]:
        """Return the scores of a chunk. Raises `UserError` with the number of a line without a score."""
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
