"""Settings of the C library's memory.

Freed memory goes back to the kernel never in training and search, or at once when a server pauses. By default the
library returns the memory of each large tensor, which the kernel clears page by page for the next tensor. This costs a
fifth of an update's time and a twelfth of a search's (`docs/performance.md`). Threads of a server share one arena.
"""

import contextlib
import ctypes
import os

from deepnmt.reference import reference_wanted

# The numbers of the settings in glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8
SPARE = 100_000_000
# Variables of the environment by which glibc lets its user choose.
CHOSEN = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_")


def keep_freed_memory() -> bool:
    """Do so in this process from now on, and return whether it worked.

    C libraries other than glibc stay as they are. Nothing changes if fast paths are turned off, or the environment has
    settings of its own.
    """
    if reference_wanted() or any(name in os.environ for name in CHOSEN):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, -1), mallopt(M_TOP_PAD, SPARE)])


def share_one_arena() -> None:
    """Let all threads that begin from now on take their memory from one place.

    Otherwise each has an arena of its own, with holes of its own that cannot be returned. A server whose threads search
    in turn has a third less memory. The environment can choose otherwise; C libraries other than glibc do nothing.
    """
    if "MALLOC_ARENA_MAX" not in os.environ:
        with contextlib.suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def return_freed_memory() -> None:
    """Return all whole pages of memory that this process has freed. C libraries other than glibc do nothing."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
