"""Faults that are put into pairs: each is what it is called, and the same for the same seed."""

from __future__ import annotations

import re

import pytest
from grammar.generate import sample_pairs

from deepnmt.cleaning.breaking import FAULTS, broken

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
