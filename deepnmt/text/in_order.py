"""Map a function over items on all cores; the results come in the order of the items."""

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import partial
from itertools import chain, count, islice
from multiprocessing import active_children, get_context
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from deepnmt.errors import UserError
from deepnmt.text.lines import decode_lines, open_file, without_mark

CHUNK = 500  # lines that a process is handed at a time
Item = TypeVar("Item")
Result = TypeVar("Result")
# The number of the first line, from 1, and the text of each file.
Block = tuple[int, list[bytes]]


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blocks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield items in lists of a size; the last list may be shorter."""
    remaining = iter(items)
    return iter(lambda: list(islice(remaining, size)), [])


def in_order(make: Callable[[], Callable[[Item], Result]], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """Yield a function's result for each item, read as needed; at most two items per process are in memory.

    `make` returns the function, and is called once in each process. Raises `UserError` if a process was killed.
    """
    if workers <= 1:
        yield from map(make(), items)
        return
    waiting: deque[Future[Result]] = deque()
    # Whatever the system's default is: workers share what was made before.
    with ProcessPoolExecutor(workers, get_context("fork"), _start, (make,)) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(_work, item))
                if len(waiting) >= 2 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise UserError("a worker was killed, perhaps for want of memory; run with fewer --workers") from None
        except BaseException:
            # Otherwise the end of the pool waits for the items that are being worked on. A process that has just been
            # forked forgets SIGTERM, and would wait for ever for the lock of a killed one.
            for worker in active_children():
                worker.kill()
            raise
        finally:
            for future in waiting:
                future.cancel()


def read_blocks(paths: Sequence[Path], size: int) -> Iterator[Block]:
    """Yield blocks of lines: the number of the first line, from 1, and the block's text in each file."""
    with ExitStack() as stack:
        files = [stack.enter_context(open_file(path)) for path in paths]
        for number in count(1, size):
            texts = [b"".join(islice(file, size)) for file in files]
            if not any(texts):
                return
            yield number, texts


def lines_of(block: bytes, name: str, first: int) -> list[str]:
    """Return the lines of a block, without their line feeds. Raises as `decode_lines`.

    Args:
        block: a whole number of lines
        name: name of the file
        first: number of the block's first line
    """
    try:
        text = (without_mark(block, name) if first == 1 else block).decode("utf-8")
    except UnicodeDecodeError:
        return list(decode_lines(block.removesuffix(b"\n").split(b"\n"), name, first))
    return text.removesuffix("\n").split("\n")


def blocks_in_order(
    function: Callable[[Block], Result], paths: Sequence[Path], workers: int, total: int
) -> Iterator[Result]:
    """Yield a function's result for each block of parallel texts with `total` lines, as `read_blocks` gives it."""
    return in_order(partial(itself, function), read_blocks(paths, CHUNK), min(workers, 1 + total // CHUNK))


def itself(item: Item) -> Item:
    """Return an item; as `partial(itself, function)`, what makes a function that all processes share."""
    return item


def lines_in_order(
    make: Callable[[], Callable[[Item], Result]], lines: Iterable[Item], workers: int, total: int
) -> Iterator[Result]:
    """Yield a function's result for each of many small items; a process gets hundreds at a time.

    Raises `UserError` if a process was killed.

    Args:
        make: returns the function; called once in each process, since tokenisers take a while to build
        lines: lines, read as they are needed
        workers: maximum number of processes
        total: minimum number of lines: a few are not worth several processes
    """
    pool = min(workers, 1 + total // CHUNK)
    return chain.from_iterable(in_order(partial(_of_lists, make), blocks(lines, CHUNK), pool))


def _of_lists(make: Callable[[], Callable[[Item], Result]]) -> Callable[[list[Item]], list[Result]]:
    function = make()
    return lambda items: [function(item) for item in items]


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    # On Ctrl-C the main process ends the workers; they would each print a traceback of their own.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    global _function
    _function = make()


def _end_with(parent: int) -> None:
    """End this process when its parent was killed; it would wait for items for ever, and hold the parent's locks."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _work(item: Any) -> Any:
    return _function(item)


_function: Callable[[Any], Any]
