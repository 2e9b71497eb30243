"""docs/fairseq.md has a row for each option of fairseq's commands, and no other."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.each_option import ROOT, parsers, rows

import deepnmt  # noqa: F401  registers its options

PAGE = ROOT / "docs" / "fairseq.md"
STATES = {"works", "fixed here", "refused here", "out of scope"}


def test_every_option_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fairseq"])
    there = set()
    for action in (action for _, _, parser, _ in parsers() for action in parser._actions):
        there |= {name for name in action.option_strings if name.startswith("--")} or {action.dest}
    listed = Counter(name for names, _, _ in rows() for name in names)
    assert len(there) > 300
    assert sorted(there - set(listed)) == [], "without a row"
    assert sorted(set(listed) - there) == [], "rows of options that do not exist"
    assert [name for name, number in listed.items() if number > 1] == []


def test_rows_say_what_was_seen() -> None:
    assert {state for _, state, _ in rows()} == STATES
    assert [names for names, _, seen in rows() if not seen] == []


def test_tests_that_rows_name_exist() -> None:
    tests = {path.name for path in Path(__file__).parents[1].rglob("test_*.py")}
    assert set(re.findall(r"\btest_\w+\.py", PAGE.read_text("utf-8"))) <= tests
