"""Processes that map a function over items: their end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from multiprocessing import active_children

import pytest

from deepnmt.text.in_order import in_order


def stubborn() -> Callable[[int], int]:
    """A process that has not yet given up its parent's handler of SIGTERM; its second item takes an hour."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return lambda item: time.sleep(3600 * item) or item


@pytest.mark.timeout(60)
def test_workers_end_with_what_reads_their_results() -> None:
    before = active_children()
    results = in_order(stubborn, [0, 1, 1, 1], 2)
    assert next(results) == 0
    results.close()
    assert active_children() == before
