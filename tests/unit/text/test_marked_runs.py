"""Runs that are cut once give the tokens of the whole line, in every language and around every sign."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepnmt.text import marked_runs
from deepnmt.text.cutting import Cutter
from deepnmt.text.lines import clean
from deepnmt.text.marked_runs import LETTERS, MarkedRuns
from deepnmt.text.signs import CURRENCY, IDEOGRAPHS, WIDE, marks, numbers
from deepnmt.text.spacing import Spacing

LANGUAGES = ["de", "en", "fr", "it", "zh", "ja", "ko", "th", "el", "sv", "ar", "hi", "cs"]
SIGNS = st.sampled_from(
    "aäsZ19é中ー房ก가א.,;:!?'’‘‚“”„\"`«»‹›()[]{}<>&|@#%$€£¿-–—…*_/=ªº½\u200b\u00ad\u0301\u203f\u2423、。！（）「１Ａ￥\U0001f642"
)
PARTS = st.one_of(SIGNS, st.sampled_from(["s'", "'s", "...", "z.B.", "Mr.", "No.", "l'", "http://a.b/c", "5", "Haus"]))
RUNS = st.one_of(
    st.sampled_from(["das", "is", "x's", "12", "no.", "(a", "b)"]), st.lists(PARTS, max_size=5).map("".join)
)
LINES = st.lists(st.lists(RUNS, max_size=8).map(" ".join).map(clean), min_size=1, max_size=30)


def whole(line: str, language: str) -> str:
    """The tokens of a line that is cut as a whole."""
    return Spacing(language).marked(*Cutter(language)(line))


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=15, deadline=None)
@given(lines=LINES)
def test_runs_are_cut_as_in_their_lines(language: str, lines: list[str]) -> None:
    runs = MarkedRuns(language)
    # Again, as they are remembered.
    assert [runs(line) for line in lines * 2] == [whole(line, language) for line in lines * 2]


# Of runs that the same rules cut, and words that no list has beside ones that a list has.
ROWS = ["a", "Ös", "sähS", "Жук", "s", "7", "30", "Dr", "No", "z", "é", "中", "كتاب", "גן", "ª", *".,:'’\"“«(&%$-–…@_"]


@pytest.mark.parametrize(
    ("language", "length"),
    [*product(LANGUAGES, [2]), *(pytest.param(each, 3, marks=pytest.mark.slow) for each in ("en", "fr", "ja"))],
)
def test_all_short_runs_are_cut_by_the_general_rules(language: str, length: int) -> None:
    runs = MarkedRuns(language)
    for parts in product(ROWS, repeat=length):
        line = " ".join(["".join(parts)] * 3)
        assert runs(line) == whole(line, language)


def test_no_rule_tells_the_letters_of_a_shape_apart() -> None:
    letters = re.findall(f"[{LETTERS}]", "".join(map(chr, range(0x110000))))
    assert len(letters) > 900
    assert all(letter.isalpha() for letter in letters)
    for members in (marks(), numbers(), IDEOGRAPHS, WIDE, CURRENCY):
        assert not re.search(f"[{members}]", "".join(letters))


def test_the_text_around_a_run_counts() -> None:
    english = MarkedRuns("en")
    lines = {
        "No. 5 and No. One.": "No. 5 and No . One .",
        "the dogs' house": "the dogs &apos; house",
        "5 $ or $ 5": "5 $ ␣ or $ ␣ 5",
        '"a" "b"': "&quot; a &quot; &quot; b &quot;",
    }
    for line, tokens in lines.items():
        assert english(line) == tokens


def test_few_runs_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marked_runs, "REMEMBERED", 10)
    runs = MarkedRuns("de")
    for number in range(50):
        line = f"Haus{number}, Nr. {number}."
        assert runs(line) == whole(line, "de")
        assert len({run for state in states(runs) for run in (*state.inside, *state.before, *state.last)}) < 15


def test_few_shapes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marked_runs, "MOST_SHAPES", 10)
    runs = MarkedRuns("de")
    for number in range(50):
        line = f"{'a-' * (number % 15)}b{'+' * (number // 15)}, c"
        assert runs(line) == whole(line, "de")
        assert sum(len(state.shapes) for state in states(runs)) < 15


def states(runs: MarkedRuns) -> list[marked_runs.State]:
    """All states that are known, each once."""
    return [*{id(state): state for state in (runs._start, *runs._states.values())}.values()]
