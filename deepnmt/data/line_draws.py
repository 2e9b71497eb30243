"""Random numbers that belong to a word of a line: the same whatever else is drawn, and in whatever process.

Each word has a stream of SplitMix64 (Steele 2014, OOPSLA) of its own, which begins at a mix of the seeds, the line and
the word's place in it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]
GOLDEN = 0x9E3779B97F4A7C15


def mixed(numbers: Unsigned) -> Unsigned:
    """Return SplitMix64's output function of each number."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


class LineDraws:
    """Draws for the words of lines.

    Args:
        seeds: such as the training's, the epoch, and the side
        lines: the number of each word's line
        places: of the words in their lines
    """

    def __init__(self, seeds: tuple[int, ...], lines: Integers, places: Integers) -> None:
        base = np.random.SeedSequence(seeds).generate_state(1, np.uint64)
        of_line = mixed(base + np.uint64(GOLDEN) * (lines.astype(np.uint64) + np.uint64(1)))
        self.streams = mixed(of_line + np.uint64(GOLDEN) * (places.astype(np.uint64) + np.uint64(1)))

    def __call__(self, words: Integers, step: int) -> npt.NDArray[np.float64]:
        """Return a number above 0 and at most 1 for each word: that of a step of its stream."""
        drawn = mixed(self.streams[words] + np.uint64(GOLDEN * (step + 1) % 2**64))
        # The 53 bits of a float64.
        shares: npt.NDArray[np.float64] = ((drawn >> np.uint64(11)).astype(np.float64) + 1) / 2**53
        return shares
