"""The folder in which a command keeps its work, and the folder that it makes in the end, each with a record.

A record says under `inputs` which files a folder is made from, by their checksums, and beside them the options; under
`counts` and `files` what came out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.locks import try_lock
from deepnmt.text.record import read_record, write_record

RESULTS = ("counts", "files")


def begin(folder: Path, name: str, record: dict[str, Any]) -> None:
    """Begin the folder of a command's work, or see that it was begun with the same.

    Args:
        folder: of the work
        name: of the record's file
        record: options and inputs

    Raises:
        UserError: the folder was begun with something else
    """
    if (folder / name).exists():
        check_same(folder / name, record, "was begun")
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / name) as temporary:
        write_record(temporary, record)


def finish(folder: Path, name: str, record: dict[str, Any], counts: dict[str, Any]) -> None:
    """Write the record of a folder that has all its files."""
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.name != name}
    write_record(folder / name, {**record, "counts": counts, "files": files})


def is_made(folder: Path, name: str, record: dict[str, Any]) -> bool:
    """Return whether a folder has been made from the same. Raises `UserError` if from something else, or damaged."""
    if not (folder / name).exists():
        return False
    check_same(folder / name, record, "was made")
    for file, size in read_record(folder / name, files=dict)["files"].items():
        path = folder / file
        if not path.is_file() or path.stat().st_size != size:
            raise UserError(f"{path}: must have the {size} bytes of its record; remove {folder} to make it again")
    return True


@contextmanager
def locked(folder: Path, script: str) -> Iterator[None]:
    """Hold a folder. Raises `UserError` if another process does, such as one that outlives a killed script."""
    with (folder / "lock").open("wb") as file:
        if not try_lock(file):
            raise UserError(f"{folder}: must not be in use, but a {script} is still running there")
        yield


def check_same(path: Path, record: dict[str, Any], what: str) -> None:
    """Raise `UserError` naming the first difference between the record in a file and another one."""
    old, new = _flat(read_record(path, inputs=dict)), _flat(record)
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            raise UserError(
                f"{path.parent} {what} with {key} {old.get(key)}, not {new.get(key)}; remove it or choose another OUT"
            )


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    settings = {key.replace("_", "-"): value for key, value in record.items() if key not in ("inputs", *RESULTS)}
    return settings | {f"input: {name}": checksum for name, checksum in record["inputs"].items()}
