"""Lines as arrays of code points, so that something is counted in all lines of a chunk at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LINE_FEEDS = 2  # before each line


class CodePoints:
    """The characters of lines, each line after two line feeds.

    Args:
        lines: without line feeds

    Attributes:
        codes: of all characters and line feeds
        lengths: of each line
        places: of the lines' own characters in `codes`
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lengths = np.array([len(line) for line in lines], dtype=np.int64)
        joined = "".join(f"\n\n{line}" for line in lines)
        self.codes = np.frombuffer(joined.encode("utf-32-le"), dtype=np.uint32)
        own = np.ones(len(self.codes), dtype=bool)
        starts = np.cumsum(self.lengths + LINE_FEEDS) - self.lengths
        own[starts - 1] = own[starts - 2] = False
        self.places = np.flatnonzero(own)

    def sums(self, values: Floats) -> Floats:
        """Return the sum over each line of a value for each of the lines' own characters."""
        total = np.concatenate([[0.0], np.cumsum(values)])
        ends = np.cumsum(self.lengths)
        sums: Floats = total[ends] - total[ends - self.lengths]
        return sums

    def count(self, marked: NDArray[np.bool_]) -> Floats:
        """Return how many characters of each line are marked in a table of all code points."""
        return self.sums(marked[self.codes[self.places]].astype(np.float64))
