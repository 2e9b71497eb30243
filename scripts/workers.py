"""Work on the lines of a text in several processes, in order."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, Callable, TypeVar

from deepnmt.errors import UserError

# Bounds the memory, since an executor's map takes all of its input at once.
BATCH = 20_000
CHUNK = 500
Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(make: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield what a function makes of each item.

    Args:
        make: returns the function; called once in each process, since tokenisers take a while to build
        items: read as they are needed
        workers: processes

    Raises:
        UserError: a process was killed
    """
    if workers <= 1:
        yield from map(make(), items)
        return
    remaining = iter(items)
    with ProcessPoolExecutor(workers, initializer=_start, initargs=(make,)) as pool:
        while batch := list(islice(remaining, BATCH)):
            try:
                yield from pool.map(_work, batch, chunksize=CHUNK)
            except BrokenProcessPool:
                raise UserError("a worker was killed, perhaps for want of memory; run with fewer --workers") from None


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    # On Ctrl-C the main process ends the workers; they would each print a traceback of their own.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    global _function
    _function = make()


def _work(item: Any) -> Any:
    return _function(item)


_function: Callable[[Any], Any]
