"""The result that a command makes once from its options and inputs: its record, its lock, its unfinished work.

    OUT/RECORD           options, checksums of inputs and sizes of files of the result
    OUT.parts/           unfinished work: finished parts, and a record of its options and inputs
    OUT.parts/lock       locked by the process that works there; the kernel frees it when that process ends

A result may also be files that begin with OUT, and others, with a named record. Work whose parts are results stays in
OUT itself: see `in_place`.

A command that finds its result made with the same options and inputs does nothing. A command that finds unfinished work
continues it. Anything else in either place is refused in one line, and left unchanged.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from deepnmt.beside import is_built_as, remove_remains, try_lock, whole_folder
from deepnmt.errors import UserError
from deepnmt.text.record import INPUT, check_kinds, difference, read_record, write_record

LOCK = "lock"
WAIT = 10.0  # seconds for a lock: a process that was killed a moment ago may still hold it
RESULTS = ("counts", "files")
# Keys of the options in records: of clean, of its work begun by version 0.1, and of work in place.
WRAPPED = ("job", "record", "settings", "values")
RECORD = "record"  # its name among the files of a result that is no folder
Made = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """A result, and the work towards it.

    Attributes:
        program: name of the command in messages, such as `deepnmt align`
        out: folder of the result
        name: name of the record's file, in `out` and in the folder of unfinished work
        made_with: the record: options, and under `inputs` the checksums of files, by their names
        option: name of `out` on the command line
        files: files of a result that is no folder: its record, then the others by their names there
        note: message about a finished result
        wait: seconds to wait for the lock (default: WAIT)
    """

    program: str
    out: Path
    name: str
    made_with: Made = field(default_factory=dict)
    option: str = "OUT"
    files: Mapping[str, Path] = field(default_factory=dict)
    note: str = ""
    wait: float | None = None

    def __post_init__(self) -> None:
        # The current folder has no name that another one could stand beside, and is another one when it is replaced.
        if self.out.name in ("", ".."):
            object.__setattr__(self, "out", Path(os.path.abspath(self.out)))

    @property
    def record(self) -> Path:
        """The record of the result."""
        return self.files.get(RECORD, self.out / self.name)

    @property
    def parts(self) -> Path:
        """The folder of unfinished work."""
        return self.out.with_name(f"{self.out.name}.parts")

    def do(self, work: Callable[[Path], None]) -> None:
        """Do the work, unless its result is there; say which.

        Args:
            work: gets the folder of unfinished work, and makes the result

        Raises:
            UserError: the result or the unfinished work belongs to another job, or another process holds it
        """
        # A command that was killed may have left some of its files.
        begun = bool(self.files) and (self.parts / self.name).exists()
        for path in () if begun or self.record.is_file() else self.files.values() or (self.out,):
            self._refuse_foreign(path)
        made = self.is_made()
        if not made:
            with self._parts() as parts:
                # Another process may have made it meanwhile.
                made = self.is_made()
                if not made:
                    work(parts)
        shutil.rmtree(self.parts, ignore_errors=True)
        # Of a command that was killed at its very end.
        for path in self.files.values() or (self.out,):
            remove_remains(path)
        print(f"{self.out} is {'up to date' if made else f'ready{self.note}'}")

    def is_made(self) -> bool:
        """Return whether the result is there. Raises `UserError` if it was made with something else, or is damaged."""
        if not self.record.exists():
            return False
        self._check_same(self.record, f"{self.record if self.files else self.out} was made")
        for name, size in read_record(self.record, files=dict)["files"].items():
            path = self.files.get(name, self.out / name)
            if not path.is_file() or path.stat().st_size != size:
                what = "the result's files" if self.files else self.out
                raise UserError(f"{path}: must have the {size} bytes of its record; remove {what} to make it again")
        return True

    def begin(self) -> None:
        """Begin the folder of unfinished work. Raises `UserError` if it exists and belongs to another job."""
        with self._parts():
            pass

    @contextmanager
    def _parts(self) -> Iterator[Path]:
        begun = not os.path.lexists(self.parts)
        with locked(self.parts, self.option, self.wait):
            try:
                record = self.parts / self.name
                if record.exists():
                    self._check_same(record, f"{self.parts} was begun")
                else:
                    # Nothing can be used without knowing its options and inputs.
                    _clear(self.parts)
                    write_record(record, dict(self.made_with))
                yield self.parts
            except BaseException as error:
                # Work that was begun for a faulty file would refuse the command with the right one.
                if begun and {path.name for path in self.parts.rglob("*") if path.is_file()} <= {LOCK, self.name}:
                    shutil.rmtree(self.parts, ignore_errors=True)
                elif isinstance(error, KeyboardInterrupt):
                    raise KeyboardInterrupt(f"resume from the work done in {self.parts}") from None
                raise

    @contextmanager
    def result(self, counts: Made) -> Iterator[Path]:
        """Give a new folder to write the result to; with its record, it becomes `out` if nothing went wrong.

        Args:
            counts: for the record; read when everything is written
        """
        with whole_folder(self.out) as folder:
            yield folder
            files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
            write_record(folder / self.name, {**self.made_with, "counts": dict(counts), "files": files})

    def check_replaceable(self, is_result: Callable[[Path], bool], kept: str = "") -> None:
        """Raise `UserError` unless a command that makes its result anew each time may replace `out`.

        `out` may be missing, empty, a result, or hold just the entry `kept`.
        """
        if self.out.exists() and not (self.out.is_dir() and ({*os.listdir(self.out)} <= {kept} or is_result(self.out))):
            raise self._foreign(self.out)

    def _refuse_foreign(self, path: Path) -> None:
        if os.path.lexists(path) and not (path.is_dir() and all(map(self._is_ours, path.iterdir()))):
            raise self._foreign(path)

    def _foreign(self, path: Path) -> UserError:
        must = f"remove it or choose another {self.option}"
        return UserError(f"{path} exists, and was not made by {self.program}; {must}")

    def _is_ours(self, path: Path) -> bool:
        """Return whether a command that was killed at once may have left a file."""
        return path.name == LOCK or is_built_as(path, path.with_name(self.name))

    def _check_same(self, path: Path, what: str) -> None:
        if found := self._difference(path):
            raise UserError(f"{what} {found}; remove it or choose another {self.option}")

    def _difference(self, path: Path) -> str:
        return difference(flat(path, read_record(path)), flat(path, self.made_with), late=())


def flat(path: Path, record: Made) -> dict[str, Any]:
    """Return the options of a result, and `input: NAME` for each input.

    Args:
        path: path of the record
        record: the record as read

    Raises:
        UserError: inputs are no object
    """
    inputs = record.get("inputs", {})
    for key in WRAPPED:
        if isinstance(inner := record.get(key), dict):
            record, inputs = inner, inner.get("inputs", inputs)
    check_kinds(path, {"inputs": inputs}, {"inputs": dict})
    settings = {key: value for key, value in record.items() if key not in ("inputs", *RESULTS)}
    return settings | {f"{INPUT}{name}": checksum for name, checksum in inputs.items()}


def _clear(parts: Path) -> None:
    """Remove all but the lock."""
    for path in parts.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


@contextmanager
def locked(folder: Path, option: str, wait: float | None = None, name: str = LOCK) -> Iterator[None]:
    """Hold a folder, which is made if it is missing.

    Args:
        folder: folder to hold
        option: its name on the command line
        wait: seconds to wait (default: WAIT)
        name: name of the lock's file in the folder

    Raises:
        UserError: another process holds it, such as a worker that outlives its command
    """
    deadline = time.monotonic() + (WAIT if wait is None else wait)
    while not (file := _lock_of(folder, name)):
        if time.monotonic() > deadline:
            raise UserError(
                f"{option} must not be in use, but a command of an earlier run is still running in '{folder}'"
            )
        time.sleep(0.1)
    with file:
        yield


def _lock_of(folder: Path, name: str) -> IO[bytes] | None:
    """Return the lock of a folder, held; None where another process holds it, or has just removed the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        file = (folder / name).open("wb")
        # Steps, which outlive a command that is killed, hold it too.
        os.set_inheritable(file.fileno(), True)
        if try_lock(file) and os.path.samestat(os.fstat(file.fileno()), (folder / name).stat()):
            return file
    except FileNotFoundError:
        return None
    file.close()
    return None
