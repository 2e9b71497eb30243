"""Faults put into a corpus, and how many of them a cleaning has found: examples/multi30k/faults.py."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import faults
from grammar.generate import sample_pairs

PAIRS = sample_pairs(60, seed=1)


def corpus(folder: Path) -> str:
    for side, language in enumerate(("de", "en")):
        (folder / f"corpus.{language}").write_text("".join(f"{pair[side]}\n" for pair in PAIRS), "utf-8")
    return str(folder / "corpus")


def made(output: Path) -> list[tuple[str, tuple[str, str]]]:
    kinds, german, english = (
        Path(f"{output}.{end}").read_text("utf-8").splitlines() for end in ("kinds", "de", "en")
    )  # fmt: skip
    return list(zip(kinds, zip(german, english)))


def test_faults_beside_the_good_pairs_or_in_their_place(tmp_path: Path) -> None:
    prefix = corpus(tmp_path)
    faults.put(prefix, str(tmp_path / "more"), ("de", "en"), 12, 0.0, ["cut", "copied"], 1)
    more = made(tmp_path / "more")
    assert Counter(kind for kind, _ in more) == {"good": 60, "cut": 6, "copied": 6}
    assert sorted(pair for kind, pair in more if kind == "good") == sorted(PAIRS)
    assert all((pair[0] == pair[1]) == (kind == "copied") for kind, pair in more)

    faults.put(prefix, str(tmp_path / "same"), ("de", "en"), 0, 0.2, ["cut", "copied"], 1)
    same = made(tmp_path / "same")
    assert Counter(kind for kind, _ in same) == {"good": 48, "cut": 6, "copied": 6}
    assert {pair for kind, pair in same if kind == "good"} < set(PAIRS)


def test_recall_and_precision(tmp_path: Path) -> None:
    (tmp_path / "kinds").write_text("good\ncut\ngood\ncut\ncopied\n")
    (tmp_path / "reason").write_text("1\tratio 1:2\n4\tratio 1:2\n5\tno-copies 0.8\n")
    rows = [line.split() for line in faults.count(tmp_path / "kinds", tmp_path / "reason").splitlines()]
    assert rows[2:] == [
        ["copied", "1", "1", "100.0%"], ["cut", "2", "1", "50.0%"], ["good", "2", "1", "50.0%"], ["precision", "66.7%"],
    ]  # fmt: skip
