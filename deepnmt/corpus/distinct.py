"""The different pairs among many pairs of small numbers, such as word numbers."""

import numpy as np
import numpy.typing as npt
from scipy import sparse

Numbers = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]


def distinct(x: Numbers, y: Numbers, stride: int) -> tuple[Keys, Numbers]:
    """Return the different values of `x * stride + y` in rising order, and for each link which of them it has.

    As `np.unique` does, in less than half of the time: numbers of words are small, and can be sorted by counting.
    """
    order = _order(y)
    order = order[_order(x[order])]
    keys = x[order].astype(np.int64) * stride + y[order]
    first = np.r_[True, keys[1:] != keys[:-1]]
    inverse = np.empty(len(x), np.int32)
    inverse[order] = np.cumsum(first, dtype=np.int32) - 1
    return keys[first], inverse


def _order(numbers: Numbers) -> Numbers:
    """Return the stable order of small numbers: a matrix with a row for each, by columns."""
    size = len(numbers)
    rows = np.arange(size + 1, dtype=np.int32)
    matrix = sparse.csr_matrix((np.ones(size, np.int8), numbers, rows), shape=(size, int(numbers.max()) + 1))
    result: Numbers = matrix.tocsc().indices
    return result
