"""Recipes of clean.sh: what a line means, which lines are refused, and what options do to them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from deepnmt.corpus.cleaning.filter_recipe import Filter, joined, parse_filter, read_recipe
from deepnmt.corpus.cleaning.filters import KINDS
from deepnmt.errors import UserError

ROOT = Path(__file__).resolve().parents[4]
ANY = math.inf


def recipe(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.txt"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "low", "high"),
    [
        ("length 2:50", 2, 50),
        ("length", 1, 100),
        ("ratio 0.5:2", 0.5, 2),
        ("ratio-sigma", -ANY, 4),
        ("max-word 30", -ANY, 30),
        ("script 0.9", 0.9, ANY),
        ("numbers", -ANY, 0),
        ("language -0.1", -0.1, ANY),
        ("score a/b.tsv >= -2.5", -2.5, ANY),
        ("score a/b.tsv:forward<=3", -ANY, 3),
    ],
)
def test_bounds(tmp_path: Path, line: str, low: float, high: float) -> None:
    (found,), _ = read_recipe(recipe(tmp_path, f"# a comment\n\n  {line}   # another\n"))
    assert (found.low, found.high) == (low, high)


def test_a_score_names_file_and_column(tmp_path: Path) -> None:
    assert parse_filter("score", "a.tsv:forward >= 1", "x").file == "a.tsv"
    assert parse_filter("score", "a.tsv:forward >= 1", "x").column == "forward"
    odd = tmp_path / "odd:name"
    odd.write_text("1\n")
    assert parse_filter("score", f"{odd} >= 1", "x").file == str(odd)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("r" * 1000, "must be one of length, ratio, .*, but is 'r{60}'"),
        ("ratios 1:2", "must be one of length, ratio, .*, but is 'ratios'"),
        ("keep-best", "keep-best must have a value"),
        ("train-classifier 3", "train-classifier must have no value"),
        ("ratio", "ratio: needs a value LOW:HIGH"),
        ("ratio 2:0.5", "ratio: must have a low bound that is at most the high one, but is 2:0.5"),
        ("ratio 2", "ratio: must be LOW:HIGH, but is '2'"),
        ("ratio -1:2", "ratio: must be a number at least 0, but is -1"),
        ("ratio nan:2", "ratio: must be a number at least 0, but is nan"),
        ("length 1:many", "length: must be a whole number, but is 'many'"),
        ("length 1.5:7", "length: must be a whole number, but is '1.5'"),
        ("script 1.5", "script: must be a number from 0 to 1, but is 1.5"),
        ("dedup both", "dedup: must be pair, source or target, but is 'both'"),
        ("score x.tsv > 3", "score: must be FILE.:COLUMN. >= X or FILE.:COLUMN. <= X, but is 'x.tsv > 3'"),
        ("score x.tsv >= much", "score: must be a number, but is 'much'"),
    ],
)
def test_refused(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UserError, match=rf"recipe\.txt:2: {message}$"):
        read_recipe(recipe(tmp_path, f"length 1:3\n{line}\n"))


def test_a_recipe_without_filters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"recipe\.txt: contains no filters, one per line"):
        read_recipe(recipe(tmp_path, "# ratio 1:2\n"))


def test_options_win_in_their_place_and_others_come_after() -> None:
    lines = [parse_filter(*words, "recipe") for words in (("ratio", "1:2"), ("numbers", ""), ("dedup", "pair"))]
    options = [parse_filter(*words, "--") for words in (("dedup", "source"), ("numbers", "3"), ("script", ""))]
    labels = [each.label for each in joined(lines, options)]
    assert labels == ["ratio 1:2", "numbers 3", "dedup pair", "dedup source", "script 0.5"]


def test_the_same_filter_twice_is_refused() -> None:
    twice = [Filter("ratio", "1:2", 1, 2), Filter("ratio", "1:3", 1, 3)]
    with pytest.raises(UserError, match="ratio: must stand once among the filters, but stands 2 times"):
        joined(twice, [])


def test_the_recipe_of_the_repository_has_every_filter_that_needs_no_file() -> None:
    names = [each.name for each in read_recipe(ROOT / "configs" / "clean.txt")[0]]
    assert sorted(names) == sorted(KINDS.keys() - {"score", "ratio", "endings", "partners", "fluency"})
