"""Terms whose translations a user prescribes: where a source has one, its translation must be in the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from deepnmt.errors import UserError
from deepnmt.text.lines import clean, read_lines

Words = tuple[str, ...]
Terms = Mapping[Words, str]


def read_terms(path: Path, source: Callable[[str], str], target: Callable[[str], str]) -> Terms:
    """Return the terms in a file, by their words: a source and a target, with a tab between them, a line.

    Args:
        path: of the file
        source: turns text of the source into tokens
        target: turns text of the target into tokens

    Raises:
        UserError: there are none, a line is no term, or a term has two translations
    """
    if not path.is_file():
        raise UserError(f"--terms must be a file of terms, but there is no '{path}'")
    terms: dict[Words, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        sides = line.rstrip("\r\n").split("\t")
        if not line.strip():
            continue
        if len(sides) != 2 or not all(map(str.strip, sides)):
            raise UserError(
                f"{path}:{number}: must be a term and its translation, with a tab between them, but is "
                f"'{line.strip()[:60]}'"
            )
        words, translation = tuple(source(clean(sides[0])).split()), target(clean(sides[1]))
        if terms.setdefault(words, translation) != translation:
            raise UserError(
                f"{path}:{number}: '{sides[0]}' must have one translation, but has '{terms[words]}' and '{translation}'"
            )
    if not terms:
        raise UserError(f"{path}: must have terms, but has none")
    return terms


def terms_of(tokens: str, terms: Terms) -> list[str]:
    """Return the translations of the terms in a line of tokens: the longest at each place, from left to right."""
    words, longest = tokens.split(), max(map(len, terms))
    found: list[str] = []
    place = 0
    while place < len(words):
        for length in range(min(longest, len(words) - place), 0, -1):
            if (translation := terms.get(tuple(words[place : place + length]))) is not None:
                found.append(translation)
                place += length
                break
        else:
            place += 1
    return list(dict.fromkeys(found))


def has_term(tokens: str, term: str) -> bool:
    """Return whether a line has the tokens of a term, as words of their own."""
    return f" {term} " in f" {tokens} "
