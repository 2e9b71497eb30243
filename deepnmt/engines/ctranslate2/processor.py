"""What this machine's processor can do, told without torch."""

from __future__ import annotations

import platform
from pathlib import Path

from deepnmt.text.lines import whole_text

FLAGS = Path("/proc/cpuinfo")
X86 = ("x86_64", "amd64")
VNNI = {"avx512_vnni", "avx_vnni"}


def sums_int8_exactly() -> bool:
    """Return whether products of int8 are summed in 32 bits; on x86 without VNNI, sums of two are cut to 16 bits.

    Where that cannot be told, it is no.
    """
    if platform.machine().lower() not in X86:
        return True
    try:
        text = whole_text(FLAGS, errors="replace")
    except OSError:
        return False
    return any(line.startswith("flags") and VNNI & set(line.split()) for line in text.splitlines())
