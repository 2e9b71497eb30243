"""The shared part of the schedules: inverse square root decay, the cool-down, and the ranges of their options."""

import math
from collections.abc import Callable, Iterator, Sequence


def decayed(peak: float, period: int, since: int) -> float:
    """peak sqrt(c / (c + s)), `since` = s updates after the peak, with `period` = c.

    The rate has halved after 3c updates.
    """
    return peak * math.sqrt(period / (period + since))


def cooled(rate: float, update: int, end: int, length: int) -> float:
    """Return the rate of a cool-down, which falls linearly to zero in the last `length` updates before `end`:

        rate min(1, (end - update) / length)                                                            (27)

    Args:
        rate: of the schedule itself
        update: number of updates done
        end: number of updates of the whole training
        length: number of updates of the cool-down; 0 for none
    """
    return rate * (max(0, end - update) / length) if end - update < length else rate


def peak_faults(lr: Sequence[float]) -> Iterator[str]:
    """Yield the faults of --lr, which must be one rate, the peak."""
    if len(lr) != 1:
        yield f"--lr must be one rate, but is {','.join(map(str, lr)) or 'empty'}"
    elif not 0 <= lr[0] < math.inf:
        yield f"--lr must be a finite number of at least 0, but is {lr[0]}"


def low_fault(option: str, value: int, least: int) -> Iterator[str]:
    """Yield the fault of a whole number below its least value."""
    if value < least:
        yield f"{option} must be at least {least}, but is {value}"


def cooldown_faults(length: int, end: Callable[[], int]) -> Iterator[str]:
    """Yield the faults of --cooldown-updates; `end` gives --max-update."""
    yield from low_fault("--cooldown-updates", length, 0)
    # fairseq's own --max-update of 0 is a training without an end.
    if length > 0 and length > (last := end()):
        yield f"--cooldown-updates must be at most --max-update, {last}, but is {length}"
