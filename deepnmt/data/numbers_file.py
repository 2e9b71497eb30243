"""Files with a number for each training pair, one per line, optionally after a line with a heading."""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines


def read_numbers(
    path: Path, pairs: int, option: str, noun: str = "number", least: float = -math.inf
) -> npt.NDArray[np.float64]:
    """Return the numbers in a file.

    Args:
        path: the file
        pairs: number of training pairs
        option: that names the file
        noun: name of such a number
        least: smallest acceptable number

    Raises:
        UserError: the file is missing, or lacks a finite number of at least `least` for each pair
    """
    if not path.is_file():
        raise UserError(f"{option}: no such file '{path}'")
    bound = "" if least == -math.inf else f" of at least {least:g}"
    numbers = []
    for line_number, line in enumerate(read_lines(path), start=1):
        try:
            number = float(line)
        except ValueError:
            if line_number == 1:
                continue
            number = math.nan
        if not (math.isfinite(number) and number >= least):
            raise UserError(f"{path}:{line_number}: must be a finite number{bound}, but is '{line.strip()[:40]}'")
        numbers.append(number)
    if len(numbers) != pairs:
        raise UserError(f"{path}: must have a {noun} for each of the {pairs} training pairs, but has {len(numbers)}")
    return np.array(numbers)
