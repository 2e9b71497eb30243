"""A folder of results that appears when it is complete; what is kept for resuming stays in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deepnmt.beside import whole_folder
from deepnmt.errors import UserError
from deepnmt.reranking.score_files import FOLDER


@dataclass(frozen=True)
class ResultFolder:
    """OUT of a command.

    Args:
        path: of the folder
        record: the file by which a folder of the command is known

    Raises:
        UserError: there is something else at the path
    """

    path: Path
    record: str

    def __post_init__(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path}: OUT must be a folder, but is a file")
        names = {path.name for path in self.path.iterdir()} if self.path.is_dir() else set()
        if names - {FOLDER} and self.record not in names:
            raise UserError(f"{self.path}: OUT must be new or have {self.record}, but is a folder of something else")

    @contextmanager
    def building(self) -> Iterator[Path]:
        """Give a folder to write to, whose files take the place of all earlier ones if nothing went wrong."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(self.path, kept=FOLDER) as folder:
            yield folder
