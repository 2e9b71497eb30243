"""Terms in a file, and in lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepnmt.errors import UserError
from deepnmt.text.terms import has_term, read_terms, terms_of


def test_the_longest_term_at_each_place(tmp_path: Path) -> None:
    (tmp_path / "terms").write_text("the dog\tder HUND\ndog\tHUND\nold dog\talter HUND\nold\talt\n\n")
    terms = read_terms(tmp_path / "terms", str.lower, str.lower)
    assert terms_of("the old dog and the dog see the dog of a dog", terms) == ["alter hund", "der hund", "hund"]
    assert terms_of("dogs", terms) == []
    assert has_term("der hund", "hund")
    assert not has_term("der schäferhund", "hund")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("dog\tHund\ndog Hund\n", r"terms:2: must be a term and its translation, with a tab .*, but is 'dog Hund'"),
        ("dog\t \n", r"terms:1: must be a term and its translation"),
        ("dog\tHund\ndog\tKöter\n", r"terms:2: 'dog' must have one translation, but has 'Hund' and 'Köter'"),
        ("\n", r"terms: must have terms, but has none"),
    ],
)
def test_faulty_terms(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "terms").write_text(text)
    with pytest.raises(UserError, match=fault):
        read_terms(tmp_path / "terms", str, str)
    with pytest.raises(UserError, match=r"^--terms must be a file of terms, but there is no '.*none'$"):
        read_terms(tmp_path / "none", str, str)
