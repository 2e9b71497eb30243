"""Lines with the translations of terms beside them: marks, subwords, and what a glossary finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepnmt.text.glossary import Glossary
from deepnmt.text.inline_targets import AS, END, MARKS, TERM, cut_inline, inline, without_marks
from deepnmt.text.lines import clean
from deepnmt.text.pipeline import Tokenizer, tokens_of
from deepnmt.text.settings import TextSettings
from deepnmt.text.terms import read_terms, terms_from

GERMAN = TextSettings("de", "en")


def glossary(settings: TextSettings, **terms: str) -> Glossary:
    entries = (("here", (term.replace("_", " "), each)) for term, each in terms.items())
    case = str.lower if settings.lowercase else str
    return Glossary(terms_from(entries, case, case), settings)


def shown(line: str) -> str:
    """The line with brackets for the marks."""
    for mark, sign in zip(MARKS, ("[", "=", "]")):
        line = line.replace(mark, sign)
    return line


def test_no_text_can_have_a_mark() -> None:
    for mark in MARKS:
        assert clean(f"a {mark} b") == f"a {mark[1:]} b"
        assert mark.split() == [mark]
    assert without_marks("a <term> <as> b </term>") == "a <term> <as> b </term>"
    assert without_marks(f"{TERM} a {AS} b c{END}") == "a b c"
    assert tokens_of(f"a@@ {AS} b <as>", GERMAN) == "a b <as>"


def test_each_side_is_cut_as_its_language_is() -> None:
    line = " ".join(["der", *inline(["alte", "hund"], ["old", "dog"]), "und", *inline(["katze"], ["cat"])])
    cut = cut_inline(line, lambda words: words.replace("hund", "hu@@ nd"), lambda words: words.replace("dog", "d@@ og"))
    assert shown(cut) == "der [ alte hu@@ nd = old d@@ og ] und [ katze = cat ]"
    assert cut_inline("<term> hund <as> dog </term>", str.upper, str.lower) == "<TERM> HUND <AS> DOG </TERM>"


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("der Hund schläft", "der [ Hund = dog ] schläft"),
        ("der alte Hund und der Hund", "der [ alte Hund = old hound ] und der [ Hund = dog ]"),
        ("Hunde und hund", "Hunde und hund"),
        # At the start of a sentence, in the text's case.
        ("Alte Hunde . Hund", "[ Alte = Old ] Hunde . [ Hund = dog ]"),
        ("die Alte", "die Alte"),
        ("&quot; Laufen &quot;", "&quot; [ Laufen = Run ] &quot;"),
        ("", ""),
    ],
)
def test_the_longest_term_at_each_place(tokens: str, expected: str) -> None:
    found = glossary(GERMAN, Hund="dog", alte_Hund="old hound", alte="old", laufen="run")
    assert shown(found.inline(tokens)[0]) == expected


def test_terms_are_told_in_their_order() -> None:
    terms = glossary(GERMAN, Hund="dog", Katze="cat").inline("die Katze , der Hund , die Katze")[1]
    assert [(term.text, term.translation) for term in terms] == [("Katze", "cat"), ("Hund", "dog"), ("Katze", "cat")]


@pytest.mark.parametrize(
    ("language", "term", "text", "expected"),
    [
        # Capitals by the language's rules, on both sides.
        ("tr", "istanbul", "İstanbul büyük", "[ İstanbul = IJsje ] büyük"),
        ("tr", "istanbul", "Istanbul büyük", "Istanbul büyük"),
        ("ga", "n-athair", "nAthair mór", "[ nAthair = IJsje ] mór"),
    ],
)
def test_capitals_follow_each_language(language: str, term: str, text: str, expected: str) -> None:
    found = glossary(TextSettings(language, "nl", language_case=True), **{term: "ijsje"})
    assert shown(found.inline(text)[0]) == expected


def test_in_true_case_the_translation_gets_no_capital() -> None:
    found = glossary(TextSettings("de", "en", truecase=True), unbekannte="unknown")
    assert shown(found.inline("Unbekannte Wörter")[0]) == "[ Unbekannte = unknown ] Wörter"


def test_in_lower_case_only_small_letters_are_found() -> None:
    settings = TextSettings("de", "en", lowercase=True)
    found = glossary(settings, Hund="Dog")
    assert shown(found.inline("hund")[0]) == "[ hund = dog ]"


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        # Moses leaves a clause whole.
        ("我喜欢苹果手机 ，", "我喜欢 [ 苹果手机 = iPhone ] ，"),
        ("苹果手机和苹果 。", "[ 苹果手机 = iPhone ] 和 [ 苹果 = apple ] 。"),
        # jieba may cut a term.
        ("苹果 手机", "[ 苹果 手机 = iPhone ]"),
        ("用AI的AIDS", "用 [ AI = KI ] 的AIDS"),
    ],
)
def test_terms_inside_tokens_of_languages_without_spaces(tokens: str, expected: str) -> None:
    found = glossary(TextSettings("zh", "en"), 苹果手机="iPhone", 苹果="apple", AI="KI")
    assert shown(found.inline(tokens)[0]) == expected


def test_a_glossary_may_be_empty(tmp_path: Path) -> None:
    assert glossary(GERMAN).inline("der Hund") == ("der Hund", [])


def test_abbreviations_are_found_in_each_form(tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("\ufeffetc.\tusw.\n", encoding="utf-8")
    tokenize = Tokenizer(GERMAN, "en")
    found = Glossary(read_terms(tmp_path / "terms", tokenize, Tokenizer(GERMAN, "de")), TextSettings("en", "de"))
    for text, expected in (("dogs etc. sleep", "dogs [ etc. = usw. ] sleep"), ("dogs etc.", "dogs [ etc . = usw. ]")):
        assert shown(found.inline(tokenize(text))[0]) == expected
