"""Validation pairs out of the training pairs: every Nth line of a prepared training split."""

import os
from pathlib import Path

from deepnmt.errors import UserError


def hold_out(train: Path, valid: Path, every: int) -> int:
    """Move lines `every`, 2 `every`, ... of each file TRAIN.KIND to VALID.KIND, and return their number.

    Raises:
        UserError: there are fewer lines than that
    """
    moved = 0
    for source in sorted(train.parent.glob(f"{train.name}.*")):
        kind = source.name[len(train.name) :]
        rest = source.with_name(source.name + ".rest")
        with (
            source.open("rb") as lines,
            rest.open("wb") as kept,
            (valid.parent / (valid.name + kind)).open("wb") as out,
        ):
            number = 0
            for number, line in enumerate(lines, start=1):
                (kept if number % every else out).write(line)
        moved = number // every
        if moved == 0:
            raise UserError(f"--valid-every must be at most the number of training pairs, {number}, but is {every}")
        os.replace(rest, source)
    return moved
