"""The prescribed translations of terms that a translation has, and their number in a folder's translations."""

import sys
from collections.abc import Sequence
from pathlib import Path

from deepnmt.text.record import read_record, write_record
from deepnmt.text.settings import TextSettings
from deepnmt.text.terms import Term
from deepnmt.text.translated_folder import RECORD, lines_of
from deepnmt.text.truecase import first_words
from deepnmt.text.words import counted_words


def missing_terms(tokens: str, terms: Sequence[Term], settings: TextSettings) -> list[Term]:
    """Return the terms of a source whose translations a translation lacks.

    A translation is present where its words (`counted_words`) follow each other in one of its forms. At the start of a
    sentence it may have a capital. Each term needs a place of its own, and longer ones choose first.

    Args:
        terms: terms of the source; a term that occurs twice needs two places
    """
    if not terms:
        return []
    language = settings.target_lang
    capitalised = settings.casing(language).capitalised
    words: list[str] = counted_words(tokens, language, tokens=True)
    first = set(first_words(words))

    def take(form: Sequence[str]) -> bool:
        forms = [list(form), [capitalised(form[0]), *form[1:]]]
        for place in range(len(words) - len(form) + 1):
            if words[place : place + len(form)] in forms[: 1 + (place in first)]:
                words[place : place + len(form)] = [""] * len(form)
                return True
        return False

    lacking = set[int]()
    for number in sorted(range(len(terms)), key=lambda number: -len(terms[number].translation)):
        forms = (counted_words(" ".join(form), language, tokens=True) for form in terms[number].forms)
        if not any(form and take(form) for form in forms):
            lacking.add(number)
    return [terms[number] for number in sorted(lacking)]


def note_terms(folder: Path, wanted: Sequence[Sequence[Term]], settings: TextSettings, key: str, **more: int) -> None:
    """Add to a folder's record how many terms its translations should have and have, and the numbers in `more`."""
    number = sum(map(len, wanted))
    lines = lines_of(folder / f"hyp.tok.{settings.target_lang}")
    found = number - sum(len(missing_terms(line, terms, settings)) for line, terms in zip(lines, wanted))
    record = read_record(folder / RECORD)
    write_record(folder / RECORD, {**record, key: {"wanted": number, "found": found, **more}})
    print(f"{found} of {number} terms are in the translations", file=sys.stderr)
