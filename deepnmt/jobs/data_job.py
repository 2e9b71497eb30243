"""A job whose result is a data folder, with the record preprocess.json."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepnmt.beside import whole_folder
from deepnmt.jobs.job import Job, locked
from deepnmt.text.data_record import check_same, complete, difference, flat
from deepnmt.text.record import read_record, write_record
from deepnmt.text.settings import RECORD


@dataclass(frozen=True)
class DataJob(Job):
    """See `Job`.

    Attributes:
        resumes: unfinished work is of use; if not, nothing of it is kept, and the next start may have other options
    """

    name: str = RECORD
    resumes: bool = False

    def is_made(self) -> bool:
        """Return whether the folder is there. Raises `UserError` if it was made with something else, or is damaged."""
        record = self.out / self.name
        if record.exists():
            check_same(record, self.made_with, self.option)
        return record.exists()

    @contextmanager
    def _parts(self) -> Iterator[Path]:
        if self.resumes:
            with super()._parts() as parts:
                yield parts
            return
        with locked(self.parts, self.option):
            try:
                yield self.parts
            finally:
                shutil.rmtree(self.parts, ignore_errors=True)

    def make(self, fill: Callable[[Path], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Make the folder, unless it exists.

        Args:
            fill: writes the data to a folder, which has the first entries of the record

        Returns:
            the result of `fill`, counts of each subset by its name; nothing if the folder exists
        """
        counts: dict[str, Any] = {}

        def work(_: Path) -> None:
            with self.result(counts) as folder:
                counts.update(fill(folder))

        self.do(work)
        return counts

    @contextmanager
    def result(
        self, counts: Mapping[str, Any], finish: Callable[[Path], object] = lambda folder: None
    ) -> Iterator[Path]:
        """Give a new folder to write the data to, which has the first entries of the record.

        Args:
            counts: counts of each subset, by its name; read when everything is written
            finish: called with the folder when its record is complete
        """
        with whole_folder(self.out) as folder:
            write_record(folder / self.name, dict(self.made_with))
            yield folder
            complete(folder, counts)
            finish(folder)

    def _difference(self, path: Path) -> str:
        return difference(flat(read_record(path, inputs=dict)), flat(self.made_with))
