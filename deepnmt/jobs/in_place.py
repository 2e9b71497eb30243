"""A job whose parts are results, and are in the folder of the result as soon as they are done.

    OUT/RECORD           its inputs and options, and further options of its last start
    OUT/lock             locked by the process that works there

A refusal leaves the folder unchanged, and makes no new one.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepnmt.beside import remove_remains_in
from deepnmt.jobs.job import LOCK, Job, flat, locked
from deepnmt.text.record import CONTENTS, difference, read_record, write_record


@dataclass(frozen=True)
class InPlace(Job):
    """See `Job`.

    Attributes:
        told: further entries of the record, which may differ from start to start
        late: prefixes of the keys that earlier versions did not record
        called: names for keys with values that mean nothing to a reader
        worth: files, by names or patterns; a folder without any of them may be begun with any options. If files are
            named, a folder without a record is accepted unchanged
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
        return any(next(self.out.glob(name), None) for name in self.worth)

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
        """Write the record, which keeps further entries of an earlier start."""
        before = read_record(self.record) if self.record.exists() else {}
        write_record(self.record, {**before, **self.made_with, **self.told})

    def _difference(self, path: Path) -> str:
        record = {key: value for key, value in read_record(path).items() if key not in self.told}
        return difference(flat(path, record), flat(path, self.made_with), self.late, self.called)
