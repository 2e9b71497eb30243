"""Scores by lexicons, against the formula written out for each pair."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import numpy as np
import pytest

from deepnmt.corpus.cleaning.pair_chunk import Pairs
from deepnmt.corpus.cleaning.pair_lexicon import FLOOR, LEAST, PairLexicon
from deepnmt.errors import UserError

HEADERS = ("source\ttarget\tprobability", "target\tsource\tprobability")
GERMAN, ENGLISH = ["das", "haus", "ist", "alt", "."], ["the", "house", "is", "old", "."]


def write(folder: Path, tables: list[dict[tuple[str, str], float]]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, header, table in zip(("forward", "reverse"), HEADERS, tables):
        lines = [f"{word}\t{other}\t{value}" for (word, other), value in table.items()]
        (folder / f"lexicon.{name}.tsv").write_text("\n".join([header, *lines]) + "\n", "utf-8")
    return folder


def expected(table: dict[tuple[str, str], float], given: list[str], found: list[str]) -> float:
    if not found:
        return math.log(FLOOR)
    used = {key: value for key, value in table.items() if value >= LEAST}
    sums = [sum(used.get((word, other), 0) for word in given) / max(len(given), 1) for other in found]
    return sum(math.log(value + FLOOR) for value in sums) / len(found)


def test_fits_are_the_formula(tmp_path: Path) -> None:
    random = Random(1)
    forward = {(x, y): random.random() for x in GERMAN for y in ENGLISH if random.random() < 0.6}
    reverse = {(y, x): random.random() for x in GERMAN for y in ENGLISH if random.random() < 0.6}
    forward["das", "the"], forward["haus", "house"] = 0.009, 0.0101
    lexicon = PairLexicon.read(write(tmp_path / "aligned", [forward, reverse]))
    pairs = [
        (["das", "das", "haus", "."], ["the", "house", "house", "unknown", "."]),
        ([], ["the"]),
        (["alt"], []),
        ([], []),
    ]
    pairs += [(random.choices(GERMAN, k=5), random.choices([*ENGLISH, "x"], k=4)) for _ in range(20)]
    # Words and signs are told apart as align.sh --raw does, and case is ignored.
    sources = [" ".join(source).title().replace(" .", ".") for source, _ in pairs]
    sides = Pairs(sources, [" ".join(target) for _, target in pairs], ("de", "en")).sides
    got = np.stack([lexicon.fits(side) for side in sides], axis=1)
    wanted = [[expected(reverse, target, source), expected(forward, source, target)] for source, target in pairs]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source\ttarget\n", r"lexicon\.forward\.tsv:1: must be the columns .*, but is 'source\ttarget'"),
        (f"{HEADERS[0]}\na\tb\n", r"lexicon\.forward\.tsv:2: must be two words and a probability, but is 'a\tb'"),
        (f"{HEADERS[0]}\na\tb\t0.001\n", r"lexicon\.forward\.tsv: contains no translations of words"),
        (None, r"--lexicon must be a folder made by deepnmt align --raw --lexicon, but .*forward\.tsv is missing"),
    ],
)
def test_faulty_lexicons_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    folder = write(tmp_path / "aligned", [{("a", "b"): 0.5}, {("b", "a"): 0.5}])
    if text is None:
        (folder / "lexicon.forward.tsv").unlink()
    else:
        (folder / "lexicon.forward.tsv").write_text(text)
    with pytest.raises(UserError, match=message):
        PairLexicon.read(folder)
