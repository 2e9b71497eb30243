"""Which cases of a test run always, and which only where slow tests do."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_but(usual: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return all cases for `pytest.mark.parametrize`; those that are not usual are marked as slow.

    Args:
        usual: the cases that run always
        cases: a value each, or a tuple of them
    """
    found = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=() if case in usual else pytest.mark.slow))
    return found
