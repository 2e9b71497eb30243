"""Locks on files: a process holds one as long as it, or one that inherits the file, lives."""

from __future__ import annotations

import fcntl
from typing import IO, Any


def try_lock(file: IO[Any]) -> bool:
    """Lock an open file until it is closed; return whether that was possible, since no other process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
