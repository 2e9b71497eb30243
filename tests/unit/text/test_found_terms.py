"""Which translations of terms a translation has: words that follow each other, each term at a place of its own."""

from __future__ import annotations

import pytest

from deepnmt.text.found_terms import missing_terms
from deepnmt.text.pipeline import Tokenizer
from deepnmt.text.settings import TextSettings
from deepnmt.text.terms import terms_from


def missing(tokens: str, translations: list[str], language: str = "de", **options: bool) -> list[str]:
    """The translations that a line of tokens lacks."""
    settings = TextSettings("en", language, **options)
    sides = Tokenizer(settings, "en"), Tokenizer(settings, language)
    terms = [next(iter(terms_from([("here", ("word", each))], *sides).values())) for each in translations]
    return [each.translation for each in missing_terms(tokens, terms, settings)]


@pytest.mark.parametrize(
    ("tokens", "translations", "expected"),
    [
        ("der Hund schläft", ["Hund", "der Hund", "schläft der"], ["Hund", "schläft der"]),
        ("der Schäferhund", ["hund", "Schäfer"], ["hund", "Schäfer"]),
        ("", ["Hund"], ["Hund"]),
        # A term that is there twice needs two places, and longer ones choose first.
        ("ein Hund und ein Hund", ["Hund", "Hund"], []),
        ("ein Hund und ein Tier", ["Hund", "Hund"], ["Hund"]),
        ("Hund Hund", ["Hund", "Hund"], []),
        ("der alte Hund", ["Hund", "alte Hund"], ["Hund"]),
        ("der alte Hund , ein Hund", ["Hund", "alte Hund"], []),
        # With a capital where a sentence begins, and nowhere else.
        ("Alte Hunde schlafen . Sie alle .", ["alte Hunde", "sie"], []),
        ("die Alte schläft", ["alte"], ["alte"]),
        ("hunde schlafen", ["Hunde"], ["Hunde"]),
        # Marks for spaces are no words.
        ("er ‿ / ‿ sie und ␣ sie", ["er / sie", "und sie"], []),
        ("&quot; Hund &quot; &amp; Co", ["Hund & Co"], ["Hund &amp; Co"]),
        ("Hund &amp; Co", ["Hund & Co"], []),
    ],
)
def test_words_that_follow_each_other(tokens: str, translations: list[str], expected: list[str]) -> None:
    assert missing(tokens, translations) == expected


@pytest.mark.parametrize(
    ("tokens", "translations", "expected"),
    [
        ("我喜欢苹果手机 ，", ["苹果", "手机"], []),
        ("苹 果手机", ["苹果手机"], []),
        ("用AIDS", ["AI"], ["AI"]),
        ("用AI的", ["AI"], []),
        ("苹果 ， 苹果", ["苹果", "苹果"], []),
        ("第10章", ["1"], ["1"]),
    ],
)
def test_inside_text_of_languages_without_spaces(tokens: str, translations: list[str], expected: list[str]) -> None:
    assert missing(tokens, translations, "zh") == expected


def test_abbreviations_are_found_in_each_form() -> None:
    assert missing("dogs etc. sleep", ["etc."], "en") == []
    assert missing("dogs etc .", ["etc."], "en") == []


def test_case_is_the_language_s() -> None:
    assert missing("İyi Ijsje", ["iyi"], "tr", language_case=True) == []
    assert missing("Iyi", ["iyi"], "tr", language_case=True) == ["iyi"]
    assert missing("ein hund", ["HUND"], lowercase=True) == []
    assert missing("IJsje smelt", ["ijsje"], "nl", language_case=True) == []
