"""Faults that are put into pairs: each is what it is called, and the same for the same seed."""

from __future__ import annotations

import re

import pytest
from grammar.generate import sample_pairs

from deepnmt.corpus.cleaning.breaking import FAULTS, broken

PAIRS = [*sample_pairs(60, seed=3), ("Es kostet 20 Euro.", "It costs 20 euros.")]


@pytest.mark.parametrize("kind", FAULTS)
def test_faults(kind: str) -> None:
    sources, targets = zip(*PAIRS)
    for row, (source, target) in enumerate(PAIRS):
        got = broken(kind, PAIRS, row, 1)
        assert got == broken(kind, PAIRS, row, 1)
        assert got != (source, target)
        changed = got[1] if got[0] == source else got[0]
        if kind == "shuffled":
            assert got[0] == source
            assert got[1] in targets
        elif kind == "cut":
            whole = target if got[0] == source else source
            assert whole.startswith(changed)
            assert len(changed.split()) == (len(whole.split()) + 1) // 2
        elif kind == "copied":
            assert got[0] == got[1] in (source, target)
        elif kind == "language":
            assert got[0] == source != got[1] in sources
        elif kind == "repeated":
            assert re.search(r"(?<!\S)(\S+(?: \S+){0,2})(?: \1){3,5}(?!\S)", changed)
            assert set(changed.split()) == set(target.split())
        else:
            assert re.findall(r"\d+", changed) != re.findall(r"\d+", target)
            assert re.sub(r" ?\d+ ?", "", changed) == re.sub(r" ?\d+ ?", "", target) or not re.search(r"\d", target)


def test_seeds_differ() -> None:
    assert [broken("shuffled", PAIRS, row, 1) for row in range(9)] != [
        broken("shuffled", PAIRS, row, 2) for row in range(9)
    ]


CHINESE = [
    (f"我家有{sign}只狗 OK{row} 和一只猫。", f"There are {sign} dogs, OK{row}, and a cat.")
    for row, sign in enumerate("一二三四五六")
]


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("source", [0, 1])
def test_faults_of_text_without_spaces(kind: str, source: int) -> None:
    pairs = [(pair[source], pair[1 - source]) for pair in CHINESE]
    languages = ("zh", "en") if source == 0 else ("en", "zh")
    for row, pair in enumerate(pairs):
        got = broken(kind, pairs, row, 1, languages)
        assert [side.split() for side in got] != [side.split() for side in pair]
        whole, changed = pair[source], got[source]
        if kind == "cut" and whole != changed:
            # Twelve signs and words: 我 家 有 一 只 狗 | OK0 和 一 只 猫 。
            assert changed == whole.split()[0]
        if kind == "repeated" and source == 1:
            assert re.search(r"(\S{1,3}|OK\d|\S? ?OK\d ?\S?)( ?\1){3,5}", changed)
            assert len(changed) > len(whole) + 2
        if kind == "numbers" and source == 1:
            assert re.findall(r"\d+", changed) != re.findall(r"\d+", whole)


@pytest.mark.parametrize("kind", FAULTS)
def test_what_cannot_be_broken_is_the_pair_itself(kind: str) -> None:
    pairs = [("Ja", "Yes"), ("Ja", "Yes"), ("Oui", "Oui")]
    same = {"shuffled": [], "cut": [0, 1, 2], "copied": [2], "language": [], "repeated": [], "numbers": []}[kind]
    assert [row for row in range(3) if broken(kind, pairs, row, 1) == pairs[row]] == same
    # A side with more words than one is cut, whichever is drawn first.
    for row in range(20):
        assert broken("cut", [("Ja", "Yes it is")] * 20, row, 1) == ("Ja", "Yes it")
