"""Long runs of signs are not remembered, so that endless new ones do not fill the memory of a server."""

from __future__ import annotations

import random
import string

import pytest

from deepnmt.text import marked_runs, spacing
from deepnmt.text.marked_runs import MarkedRuns


def test_memory_of_long_runs_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marked_runs, "REMEMBERED", 500)
    generator, runs = random.Random(1), MarkedRuns("de")
    spacing._remembered_kind.cache_clear()
    for _ in range(30):
        runs("".join(generator.choices(string.ascii_letters, k=3_000)))
        # Each counts as 94 usual ones.
        assert len(runs._start.last) <= 6
    assert spacing._remembered_kind.cache_info().currsize == 0
    for number in range(200):
        runs(f"Haus{number}")
    assert len(runs._start.last) > 100
