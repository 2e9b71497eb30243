"""Sentences of a line: no character is lost, and German ordinals end no sentence."""

from __future__ import annotations

import builtins
import random
from collections.abc import Iterator
from typing import Any

import pytest

from deepnmt.text import sentences
from deepnmt.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", ["One sentence.  ", "Another one? ", "Yes!"]),
        ("en", ["Dr. Smith paid 3.50 dollars, e.g. in cash. ", "He left."]),
        ("en", [" \t Indented.\t", "The end. \t"]),
        ("en", ["No full stop"]),
        ("en", [""]),
        ("en", ["   "]),
        ("de", ["Am 3. Oktober kam z. B. Dr. Müller. ", "Danach ging er."]),
        ("de", ["Die 2. Auflage und 3. Auflage fehlen. ", "Ja."]),
        ("de_AT", ["Der 1. FC Köln und der 2. Verein spielen seit dem 12. Spieltag. ", "Gut."]),
        # A year, and a number after another word, may end a sentence.
        ("de", ["Er kam im Jahr 12. ", "Danach ging er."]),
        ("de", ["Das war die 1995. ", "Sie ging."]),
        # In other languages, the same words are no articles.
        ("en", ["I am 3. ", "You are 4."]),
        ("ja", ["これはペンです。", "あれは本です。"]),
        ("zh-TW", ["你好。", "再見！"]),
        # A language that the library does not know.
        ("xx", ["One. ", "Two."]),
    ],
)
def test_sentences(language: str, expected: list[str]) -> None:
    assert split_sentences("".join(expected), language) == expected


@pytest.mark.parametrize("space", ["\u3000", "\u2028", "\x85", "\x0b", "\xa0", "\r", "\ufeff ", "\x00 "])
def test_white_space_of_any_kind_stands_between_sentences(space: str) -> None:
    # The library alone fails at the first of them after a German initial.
    for line in (f"Das ist A.{space}Das ist es.", f"Hier ist er.{space}Dort ist sie."):
        assert "".join(split_sentences(line, "de")) == line
    assert split_sentences(f"Hier ist er.{space}Dort ist sie.", "de") == [f"Hier ist er.{space}", "Dort ist sie."]


def test_no_character_is_lost() -> None:
    generator = random.Random(1)
    parts = [
        *"aB. .!?\"'()\t\r1 ",
        "\u3000",
        "\u2028",
        "。",
        "「",
        "」",
        "é",
        "“",
        "…",
        " und ",
        "die ",
        "12.",
        "😀",
        "\x00",
    ]
    for _ in range(1_000):
        line = "".join(generator.choices(parts, k=generator.randrange(40)))
        for language in ("de", "en", "ja", "hi"):
            found = split_sentences(line, language)
            assert "".join(found) == line
            assert found == [line] or all(found)


def test_a_long_line_takes_no_square_of_its_length() -> None:
    line = "die 2. Auflage " * 20_000
    assert "".join(split_sentences(line, "de")) == line


@pytest.mark.parametrize(
    ("language", "unit"),
    [
        ("de", ["Am 3. Oktober kam „Er geht. Sie geht. Es geht.“ heraus. ", "Danach ging der 2. Gast.  "]),
        ("ja", ["これはペンです。", "「あれ。これ。」", "は本です。"]),
    ],
)
def test_a_long_line_has_the_sentences_of_its_parts(language: str, unit: list[str]) -> None:
    assert split_sentences("".join(unit), language) == unit
    assert split_sentences("".join(unit * 1_500), language) == unit * 1_500


def test_a_quotation_that_the_window_cuts_is_one_sentence() -> None:
    before, after = "The dog sleeps here. ", "The cat sleeps."
    quotation = f'He said "{"I came here and saw it. " * 6}" to all of us then. '
    line = before * 471 + quotation + after
    assert len(before) * 471 + 50 < sentences.WINDOW < len(line) - len(after) - 50
    assert split_sentences(line, "en") == [*[before] * 471, quotation, after]


@pytest.mark.parametrize(("unit", "number"), [("`", 1), ("字。", 15_000), ("„", 1), (" ", 1)])
def test_the_library_never_gets_a_long_text(unit: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time for such text grows with the square of the length."""
    segment, lengths = sentences._segmenter(), list[int]()
    assert segment is not None

    def noted(language: str, line: str) -> list[str]:
        lengths.append(len(line))
        return segment(language, line)

    monkeypatch.setattr(sentences, "_segmenter", lambda: noted)
    line = unit * 15_000
    found = split_sentences(line, "zh")
    assert "".join(found) == line
    assert len(found) == number
    assert max(lengths) <= 10_000
    assert len(lengths) <= 2 * len(line) / 10_000 + 1


class PanicException(BaseException):
    """A fault of the library's has this name."""


@pytest.fixture
def anew() -> Iterator[None]:
    sentences._segmenter.cache_clear()
    yield
    sentences._segmenter.cache_clear()


def test_a_fault_of_the_library_leaves_the_line_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(language: str, line: str) -> list[str]:
        raise PanicException

    monkeypatch.setattr(sentences, "_segmenter", lambda: fail)
    assert split_sentences("A. B.", "de") == ["A. B."]
    monkeypatch.setattr(sentences, "_segmenter", lambda: lambda language, line: [line[:-1]])
    assert split_sentences("One. Two.", "en") == ["One. Two."]


@pytest.mark.usefixtures("anew")
def test_without_the_library_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "sentencex":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert [split_sentences("One. Two.", "en") for _ in range(2)] == [["One. Two."]] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "sentencex is not installed, so each line is translated as one sentence: pip install sentencex"
    ]
