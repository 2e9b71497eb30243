"""Map a function over large items on all cores; the results come in the order of the items."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, TypeVar

from deepnmt.errors import UserError

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(make: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield what a function makes of each item; at most two items a process are in memory.

    Args:
        make: returns the function; called once in each process
        items: read as they are needed
        workers: processes

    Raises:
        UserError: a process was killed
    """
    if workers <= 1:
        yield from map(make(), items)
        return
    waiting: deque[Future[Result]] = deque()
    with ProcessPoolExecutor(workers, initializer=_start, initargs=(make,)) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(_work, item))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise UserError("a worker was killed, perhaps for want of memory; run with fewer --workers") from None
        finally:
            for future in waiting:
                future.cancel()


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    # On Ctrl-C the main process ends the workers; they would each print a traceback of their own.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    global _function
    _function = make()


def _work(item: Any) -> Any:
    return _function(item)


_function: Callable[[Any], Any]
