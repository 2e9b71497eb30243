"""Temporary names beside a path, for atomic writes of files and folders.

    NAME.tmp.PID         file or folder in progress
    NAME.tmp.PID.lock    locked meanwhile
    NAME.old.PID         the previous folder, until the new one is in place

A process that is killed leaves them. Only then does the kernel free its lock. A free lock therefore tells the next
build of the same path which leftovers it may remove, whatever process has the number PID by now. On file systems
without locks, nothing is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from deepnmt.errors import UserError

LOCK = re.compile(r"(.+)\.tmp\.(\d+)\.lock", re.DOTALL)


@contextmanager
def building(path: Path) -> Iterator[Path]:
    """Give the temporary name of a path; in the end nothing is left under it, nor by processes that were killed."""
    path = path.absolute()  # "." has no name that another one could stand beside
    remove_remains(path)
    temporary = path.with_name(f"{path.name}.tmp.{os.getpid()}")
    lock = temporary.with_name(f"{temporary.name}.lock")
    with lock.open("wb") as file:
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            _remove(temporary)
            yield temporary
        finally:
            _remove(temporary)
            lock.unlink(missing_ok=True)


def is_built_as(name: Path, path: Path) -> bool:
    """Return whether a name is a path itself, or a temporary name under which it is built."""
    one, other = os.path.abspath(name), os.path.abspath(path)
    return one == other or one.startswith(f"{other}.tmp.")


@contextmanager
def whole_folder(path: Path, kept: str = "") -> Iterator[Path]:
    """Give a folder to write to; it replaces `path`, atomically, only if nothing went wrong.

    A link stays, and its target folder is replaced; the entry `kept` is taken over from the previous folder.

    Raises:
        UserError: the path is a broken link, or the disk is full
    """
    path = _place_of(path).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with building(path) as temporary:
        temporary.mkdir()
        try:
            yield temporary
        except OSError as error:
            # One without a name is of writing.
            raise error if error.filename else UserError(f"cannot write {path}: {error.strerror}") from error
        old = path.with_name(f"{path.name}.old.{os.getpid()}")
        if os.path.lexists(path):
            os.replace(path, old)
        os.replace(temporary, path)
        if kept and (old / kept).exists():
            os.replace(old / kept, path / kept)
        shutil.rmtree(old, ignore_errors=True)


def _place_of(path: Path) -> Path:
    if not path.is_symlink():
        return path
    place = Path(os.path.realpath(path))
    # A process killed between two renamings leaves a broken link.
    remove_remains(place)
    if not place.exists():
        raise UserError(f"{path}: must be a new folder or one of this command, but is a broken link")
    return place


def remove_remains(path: Path) -> None:
    """Remove remains of killed processes beside a path; the previous file or folder returns if the path is empty."""
    with contextlib.suppress(OSError):
        for name in os.listdir(path.parent):
            found = LOCK.fullmatch(name)
            if found is not None and found[1] == path.name:
                _remove_if_free(path, found[2])


def remove_remains_in(folder: Path) -> None:
    """Remove remains of killed processes beside anything in a folder, as `remove_remains`."""
    for found in filter(None, map(LOCK.fullmatch, os.listdir(folder))):
        _remove_if_free(folder / found[1], found[2])


def _remove_if_free(path: Path, process: str) -> None:
    lock = path.with_name(f"{path.name}.tmp.{process}.lock")
    # Another process holds or removes it, or it belongs to another user.
    with contextlib.suppress(OSError), lock.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        old = path.with_name(f"{path.name}.old.{process}")
        if os.path.lexists(old) and not os.path.lexists(path):
            os.replace(old, path)
        _remove(old)
        _remove(path.with_name(f"{path.name}.tmp.{process}"))
        lock.unlink()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file until it is closed; return whether that was possible, i.e. no other process holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
