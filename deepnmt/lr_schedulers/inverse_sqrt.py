"""What the schedules share: the decay with the inverse square root, and what their options may be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence


def decayed(peak: float, period: int, since: int) -> float:
    """peak sqrt(c / (c + s)), `since` = s updates after the peak, with `period` = c.

    The rate has halved after 3c updates.
    """
    return peak * math.sqrt(period / (period + since))


def peak_faults(lr: Sequence[float]) -> Iterator[str]:
    """What is wrong with --lr, which must be the one rate of the peak."""
    if len(lr) != 1:
        yield f"--lr must be one rate, but is {','.join(map(str, lr)) or 'empty'}"
    elif not 0 <= lr[0] < math.inf:
        yield f"--lr must be a finite number of at least 0, but is {lr[0]}"


def low_fault(option: str, value: int, least: int) -> Iterator[str]:
    """What is wrong with a whole number that has a least value."""
    if value < least:
        yield f"{option} must be at least {least}, but is {value}"
