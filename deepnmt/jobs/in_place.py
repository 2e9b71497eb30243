"""A job whose parts are results, and stand in the folder of the result as soon as they are done.

    OUT/RECORD           what it was begun with, and what its last start was told besides
    OUT/lock             locked by the process that works there

What is refused leaves the folder as it was, and makes no new one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepnmt.beside import remove_remains_in
from deepnmt.console import whole_file
from deepnmt.jobs.job import LOCK, Job, flat, locked
from deepnmt.text.record import CONTENTS, difference, read_record, write_record


@dataclass(frozen=True)
class InPlace(Job):
    """See `Job`.

    Attributes:
        told: what the record has besides, in which one start may differ from another
        late: beginnings of the keys that earlier versions did not record
        called: what to say of keys whose values say nothing to a reader
        worth: files without any of which the folder may be begun with anything; where these are named, a folder without
            a record is taken as it is
        lock: name of the lock's file
    """

    told: Mapping[str, Any] = field(default_factory=dict)
    late: tuple[str, ...] = (CONTENTS,)
    called: Mapping[str, str] = field(default_factory=dict)
    worth: tuple[str, ...] = ()
    lock: str = LOCK

    def check(self) -> None:
        """Raise `UserError` if the folder was begun with something else, or is no folder of this command."""
        if not self.worth and not self.record.exists():
            self._refuse_foreign(self.out)
        elif self.record.exists() and (not self.worth or self.has_worth()):
            self._check_same(self.record, f"{self.out} was begun")

    def has_worth(self) -> bool:
        """Return whether the folder has a file that is worth something."""
        return any((self.out / name).exists() for name in self.worth)

    @contextmanager
    def begun(self) -> Iterator[Path]:
        """Hold the folder, which is checked and has its record.

        Raises:
            UserError: it was begun with something else, is no folder of this command, or another process holds it
        """
        self.check()
        with locked(self.out, self.option, self.wait, self.lock):
            self.check()
            self.write()
            remove_remains_in(self.out)
            try:
                yield self.out
            except KeyboardInterrupt:
                raise KeyboardInterrupt(f"resume from the work done in {self.out}") from None

    def write(self) -> None:
        """Write the record, which keeps what an earlier start has written there besides."""
        before = read_record(self.record) if self.record.exists() else {}
        with whole_file(self.record) as temporary:
            write_record(temporary, {**before, **self.made_with, **self.told})

    def _difference(self, path: Path) -> str:
        record = {key: value for key, value in read_record(path).items() if key not in self.told}
        return difference(flat(path, record), flat(path, self.made_with), self.late, self.called)
