"""One progress bar for a work of several stages.

The bar counts expected time, not lines, so that its estimate holds from early on.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tqdm import tqdm

# Told of each further part of a stage, of 1 in all.
Done = Callable[[float], object]


class Stages:
    """Shows the progress of a work.

    Args:
        times: expected time of each stage by its name, in any unit
    """

    def __init__(self, times: Mapping[str, float]) -> None:
        self._times = times
        layout = "{desc}{percentage:3.0f}%|{bar}| [{elapsed}<{remaining}]"
        # The mean speed counts: that of a moment says little about the next stage.
        self._bar = tqdm(total=sum(times.values()), bar_format=layout, smoothing=0, file=sys.stderr)
        self._before = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[Done]:
        """Begin the next stage, and give the function that is told of its parts."""
        self._bar.set_description(name)
        time = self._times[name]
        end = min(self._before + time, self._bar.total)
        yield lambda part: self._bar.update(min(part * time, end - self._bar.n))
        self._before += time
        self._bar.update(end - self._bar.n)

    def __enter__(self) -> "Stages":
        """Show the bar until the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bar as it is."""
        self._bar.close()


def unseen(part: float) -> None:
    """Show nothing."""
