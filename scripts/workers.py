"""Work on the lines of a text in several processes, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from typing import Callable, TypeVar

from deepnmt.text.in_order import in_order

# Lines for which a further process pays, and lines that a process is handed at a time.
BATCH = 20_000
CHUNK = 500
Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(make: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield what a function makes of each item, of which a process is handed many at a time.

    Args:
        make: returns the function; called once in each process, since tokenisers take a while to build
        items: read as they are needed
        workers: processes

    Raises:
        UserError: a process was killed
    """
    remaining = iter(items)
    chunks = iter(lambda: list(islice(remaining, CHUNK)), [])
    return chain.from_iterable(in_order(partial(_of_lists, make), chunks, workers))


def _of_lists(make: Callable[[], Callable[[Item], Result]]) -> Callable[[list[Item]], list[Result]]:
    function = make()
    return lambda items: [function(item) for item in items]
