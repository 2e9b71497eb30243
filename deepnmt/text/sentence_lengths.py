"""Whether the sentences of a binarised subset fit into batches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from deepnmt.errors import UserError
from deepnmt.text.data_folder import subset_prefix
from deepnmt.text.index_file import read_lengths


@dataclass(frozen=True)
class Limits:
    """What a sentence may have at most.

    Attributes:
        option: that sets the tokens
        tokens: of a batch, and so of either side of a sentence
        positions: of source and target; longer ones are left out whatever the batch
        leaves_out: sentences that no batch holds are left out too, and not an error
    """

    option: str
    tokens: int
    positions: tuple[int, int]
    leaves_out: bool


def check_lengths(folder: Path, subset: str, languages: tuple[str, str], limits: Limits) -> Optional[str]:
    """Return a line about the sentences that are left out because no batch holds them; None where there are none.

    Args:
        folder: the data folder; faults of its files are for `check_subset` to name
        subset: its name
        languages: source and target
        limits: on the sentences

    Raises:
        UserError: no sentence is left, or none may be left out
    """
    import numpy as np

    prefix = subset_prefix(folder, subset, languages)
    sides = [read_lengths(f"{prefix}.{language}") for language in languages] if prefix else []
    source, target = sides if len(sides) == 2 else (None, None)
    if source is None or target is None or len(source) != len(target):
        return None
    possible = (source <= limits.positions[0]) & (target <= limits.positions[1])
    tokens = np.maximum(source, target)[possible]
    longer = int((tokens > limits.tokens).sum())
    if not longer:
        return None
    found = f"{longer} of the {len(source)} sentences of {subset} in {folder} have more, up to {tokens.max()}"
    if limits.leaves_out and longer < len(tokens):
        return f"{limits.option} is {limits.tokens}: {found}, and are left out"
    raise UserError(f"{limits.option} must be at least the tokens of a sentence, but is {limits.tokens}: {found}")
