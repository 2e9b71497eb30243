"""`--difficulty`: how hard each training pair is, as the rank of its source's length or rarity, or of a given number.

The rarity of a source is `-sum log p(w)` over its pieces, with their shares p in the sources of the training text.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deepnmt.data.numbers_file import read_numbers

LENGTH, RARITY = "length", "rarity"
Floats = npt.NDArray[np.float64]


def difficulties(kind: str, pairs: Any) -> Floats:
    """Return the rank of each of fairseq's pairs, above 0 and at most 1: the share of pairs that are not harder.

    The kind is length, rarity, or a file with a number for each pair, which is larger for harder ones.

    Raises:
        UserError: the file is missing, or lacks a finite number for each pair
    """
    if kind == LENGTH:
        return ranks(pairs.src_sizes)
    if kind == RARITY:
        return ranks(rarities(pairs.src, len(pairs.src_dict)))
    return ranks(read_numbers(Path(kind), len(pairs), "--difficulty"))


def ranks(scores: npt.ArrayLike) -> Floats:
    """Return the share of scores that are at most as large as each one."""
    scores = np.asarray(scores)
    shares: Floats = np.searchsorted(np.sort(scores), scores, side="right") / len(scores)
    return shares


def rarities(sources: Any, types: int) -> Floats:
    """Return the rarity of each source, in nats; of its pieces, the end symbol does not count."""
    counts = np.zeros(types, np.int64)
    for number in range(len(sources)):
        np.add.at(counts, sources[number].numpy()[:-1], 1)
    # A type that does not occur is never looked up.
    surprise = -np.log(np.maximum(counts, 1) / max(1, counts.sum()))
    return np.array([surprise[sources[number].numpy()[:-1]].sum() for number in range(len(sources))])
