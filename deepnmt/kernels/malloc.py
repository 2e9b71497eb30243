"""Make the C library keep the memory that training and beam search on the CPU free.

By default it returns the memory of each large tensor to the kernel, which clears it page by page for the next tensor.
This costs a fifth of an update's time and a twelfth of a search's (`docs/performance.md`).
"""

import ctypes

from deepnmt.reference import reference_wanted

# The settings' numbers in glibc's malloc.h.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
SPARE = 100_000_000


def keep_freed_memory() -> bool:
    """Do so in this process from now on, and return whether it worked.

    Other C libraries than glibc stay as they are, and nothing changes where fast paths are turned off.
    """
    if reference_wanted():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return all([mallopt(M_MMAP_MAX, 0), mallopt(M_TRIM_THRESHOLD, -1), mallopt(M_TOP_PAD, SPARE)])
