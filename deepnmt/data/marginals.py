"""A file with log P(x) and log P(y) of each training pair (x, y), in nats, by language models.

The heading names both languages; then there is a line per pair: both numbers, with a tab between them. `deepnmt
marginals` writes it, and a training in either direction reads it.
"""

import math
from pathlib import Path

import torch
from torch import Tensor

from deepnmt.console import as_number
from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines


def read_marginals(path: Path, pairs: int, languages: tuple[str, str]) -> Tensor:
    """Return the numbers of a file, N x 2, in float64, for N training pairs from one of the languages to the other.

    Raises:
        UserError: the file is missing or of other languages, or lacks two finite numbers of at most 0 for a pair
    """
    if not path.is_file():
        raise UserError(f"--marginals: no such file '{path}'")
    found, columns = list[list[float]](), (0, 1)
    for number, line in enumerate(read_lines(path), start=1):
        line = line.rstrip("\n")
        if number == 1:
            named = line.split("\t")
            if sorted(named) != sorted(languages):
                raise UserError(f"{path}:1: must name the languages {' and '.join(languages)}, but is '{line[:40]}'")
            columns = named.index(languages[0]), named.index(languages[1])
            continue
        values = [as_number(word) for word in line.split("\t")]
        if len(values) != 2 or not all(-math.inf < value <= 0 for value in values):
            raise UserError(f"{path}:{number}: must be two finite numbers of at most 0, but is '{line[:40]}'")
        found.append(values)
    if len(found) != pairs:
        raise UserError(f"{path}: must have a line for each of the {pairs} training pairs, but has {len(found)}")
    return torch.tensor(found, dtype=torch.float64)[:, columns]
