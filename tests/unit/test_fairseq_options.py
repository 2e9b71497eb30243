"""docs/fairseq.md has a row for each option of fairseq's commands, and no other."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fairseq import options
from fairseq_cli import score

import deepnmt  # noqa: F401  registers its options

PAGE = Path(__file__).resolve().parents[2] / "docs" / "fairseq.md"
STATES = {"works", "fixed here", "refused here", "out of scope"}
CHOICES = ["--optimizer=adam", "--lr-scheduler=inverse_sqrt", "--criterion=label_smoothed_cross_entropy"]


def rows() -> list[tuple[list[str], str, str]]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    assert all(len(row) == 3 for row in cells)
    return [(re.findall("`([^`]+)`", names), state, seen) for names, state, seen in cells]


def parsers() -> Iterator[ArgumentParser]:
    for task, arch in (
        ("translation", "transformer"),
        ("deep_translation", "dlcl_transformer"),
        ("deep_mass", "dlcl_transformer"),
    ):
        given = ["data", f"--task={task}"]
        for make in (options.get_interactive_generation_parser, options.get_validation_parser):
            yield parsed(make(), given)
        yield parsed(options.get_training_parser(), [*given, f"--arch={arch}", *CHOICES])
    yield parsed(options.get_generation_parser(), ["data"])
    yield parsed(options.get_eval_lm_parser(), ["data"])
    yield score.get_parser()


def parsed(parser: ArgumentParser, given: list[str]) -> ArgumentParser:
    # What a command has depends on what it is given.
    options.parse_args_and_arch(parser, given)
    return parser


def test_every_option_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["fairseq"])
    there = set()
    for action in (action for parser in parsers() for action in parser._actions):
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
