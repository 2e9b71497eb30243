"""How probable it is, by their positions alone, that two words of a pair are linked.

For target position j of n, source position i of m, both from 1:

    IBM model 1   P(a_j = i) = P(a_j = null) = 1 / (m + 1)                  (Brown 1993, J93-2003)
    diagonal      P(a_j = i) = (1 - p0) exp(-4 |i/m - j/n|) / Z_j, P(a_j = null) = p0 = 0.08     (Dyer 2013, N13-1073)

Of the reverse direction, in which a source word is linked to a target word, with i and j exchanged.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

TENSION = 4.0
NULL = 0.08
MODEL_1, DIAGONAL = KINDS = ("model 1", "diagonal")
Matrix = npt.NDArray[np.float32]


class Prior(NamedTuple):
    """The prior of pairs with m source and n target words.

    Attributes:
        forward: of each target word's links, n x m
        reverse: of each source word's links, n x m
        forward_null: that a target word is linked to none
        reverse_null: that a source word is
    """

    forward: Matrix
    reverse: Matrix
    forward_null: float
    reverse_null: float


# Those of the longest pairs have more than a megabyte, and each worker has its own.
@lru_cache(maxsize=256)
def prior(kind: str, m: int, n: int) -> Prior:
    """Return the prior of pairs with m source and n target words."""
    if kind == MODEL_1:
        return Prior(
            np.full((n, m), 1 / (m + 1), np.float32), np.full((n, m), 1 / (n + 1), np.float32), 1 / (m + 1), 1 / (n + 1)
        )
    i, j = np.arange(1, m + 1) / m, np.arange(1, n + 1)[:, None] / n
    weight = np.exp(-TENSION * np.abs(i - j))
    return Prior(
        ((1 - NULL) * weight / weight.sum(axis=1, keepdims=True)).astype(np.float32),
        ((1 - NULL) * weight / weight.sum(axis=0, keepdims=True)).astype(np.float32),
        NULL,
        NULL,
    )
