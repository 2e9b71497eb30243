"""Terms in a file, and in lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepnmt.errors import UserError
from deepnmt.text.pipeline import Tokenizer
from deepnmt.text.settings import TextSettings
from deepnmt.text.terms import forms_of, read_terms, terms_of

ENGLISH, GERMAN = (Tokenizer(TextSettings(language, "fi"), language) for language in ("en", "de"))


def test_the_longest_term_at_each_place(tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("the dog\tder HUND\ndog\tHUND\nold dog\talter HUND\nold\talt\n\n")
    terms = read_terms(tmp_path / "terms", str.lower, str.lower)
    found = terms_of("the old dog and the dog see the dog of a dog", terms)
    assert [term.translation for term in found] == ["alter hund", "der hund", "hund"]
    assert [term.text for term in found] == ["old dog", "the dog", "dog"]
    assert terms_of("dogs", terms) == []


@pytest.mark.parametrize(
    ("term", "sentence"),
    [
        ("etc.", "Dogs, cats etc. are here."),
        ("etc.", "These are dogs, cats etc."),
        ("etc.", "Here are dogs etc., and cats."),
        ("Apple Inc.", "Apple Inc. is a house."),
        ("Apple Inc.", "We see Apple Inc."),
        ("Apple Inc.", "The Apple Inc. Store is near."),
        ("'90s", "'90s dogs sleep."),
        ("'90s", "In the '90s dogs slept."),
        ("No. 5", "We saw No. 5 of them."),
    ],
)
def test_a_term_is_found_wherever_it_stands_in_a_sentence(tmp_path: Path, term: str, sentence: str) -> None:
    """Moses' rules for a full stop or a quote depend on what stands beside it."""
    (tmp_path / "terms").write_text(f"{term}\tHund\n")
    terms = read_terms(tmp_path / "terms", ENGLISH, GERMAN)
    assert [each.translation for each in terms_of(ENGLISH(sentence), terms)] == ["Hund"]


def test_a_translation_is_forced_as_it_is_within_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("die Firma\tApple Inc.\n")
    (term,) = set(read_terms(tmp_path / "terms", GERMAN, ENGLISH).values())
    assert ENGLISH("We saw Apple Inc. here.") == f"We saw {term.translation} here ."
    assert forms_of("Apple Inc.", ENGLISH) == [("Apple", "Inc."), ("Apple", "Inc", ".")]
    assert forms_of("dog", str.lower) == [("dog",)]
    assert forms_of("dog", lambda text: text.replace("x ", "")) == [("dog",)]
    # Where a rule joins it to whatever is beside it, there is no such form.
    assert forms_of("-dog", lambda text: text.replace(" -", "-")) == [("-dog",)]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("dog\tHund\ndog Hund\n", r"terms:2: must be a term and its translation, with a tab .*, but is 'dog Hund'"),
        ("dog\t \n", r"terms:1: must be a term and its translation"),
        ("dog\tHund\ndog\tKöter\n", r"terms:2: 'dog' must have one translation, but has 'Hund' and 'Köter'"),
        ("\ufeff\tHund\n", r"terms:1: must be a term and its translation"),
        ("\n", r"terms: contains no terms"),
    ],
)
def test_faulty_terms(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "terms").write_text(text)
    with pytest.raises(UserError, match=fault):
        read_terms(tmp_path / "terms", str, str)
    with pytest.raises(UserError, match=r"^--terms must be a file of terms, but there is no '.*none'$"):
        read_terms(tmp_path / "none", str, str)
