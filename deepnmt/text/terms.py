"""Terms whose translations a user prescribes: where a source has one, its translation must be in the output.

Moses' rules cut some terms by their neighbours: `etc.` is one token before a small letter, and two at the end of a
sentence. So the search for a term covers every form that it has in sentences.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deepnmt.errors import UserError
from deepnmt.text.lines import clean, read_lines

Words = tuple[str, ...]
# A word that all rules leave as it is, and the places of a term beside it; the first is in the middle of a sentence.
BESIDE = "x"
PLACES = ("x {} x", "x {} X", "x {}", "{} x", "{}")


@dataclass(frozen=True)
class Term:
    """A term.

    Attributes:
        text: text of the source, as in the file
        translation: tokens of the target, in the middle of a sentence
        forms: forms of the translation's tokens
    """

    text: str
    translation: str
    forms: tuple[Words, ...]


Terms = Mapping[Words, Term]


def forms_of(text: str, tokenize: Callable[[str], str]) -> list[Words]:
    """Return the tokens of a clean text in each form that they have in a sentence, the one in its middle first."""
    forms: list[Words] = []
    for place in PLACES:
        words = tokenize(place.format(text)).split()
        before, after = place.split("{}")
        kept = words[len(before.split()) : len(words) - len(after.split())]
        beside = words[: len(before.split())] + words[len(words) - len(after.split()) :]
        # A rule or a unit may have joined them to the term.
        if all(word.lower() == BESIDE for word in beside) and kept:
            forms.append(tuple(kept))
    return list(dict.fromkeys(forms))


def read_terms(
    path: Path, source: Callable[[str], str], target: Callable[[str], str], option: str = "--terms"
) -> Terms:
    """Return the terms in a file, by the words of each form: a source, a tab and a target per line.

    `source` and `target` turn text into tokens; `option` names the file. Raises `UserError` if there are no terms, a
    line is no term, or a term has two translations.
    """
    if not path.is_file():
        raise UserError(f"{option} must be a file of terms, but there is no '{path}'")
    lines = enumerate(read_lines(path), start=1)
    entries = ((f"{path}:{number}", line.rstrip("\r\n").split("\t")) for number, line in lines if line.strip())
    terms = terms_from(entries, source, target)
    if not terms:
        raise UserError(f"{path}: contains no terms")
    return terms


def terms_from(
    entries: Iterable[tuple[str, Sequence[str]]], source: Callable[[str], str], target: Callable[[str], str]
) -> Terms:
    """Return terms by the words of each form. `source` and `target` turn text into tokens.

    An entry has its place, for messages, and its sides. Raises `UserError` if an entry is no term, or a term has two
    translations.
    """
    terms: dict[Words, Term] = {}
    for place, sides in entries:
        forms = [forms_of(clean(side), tokenize) for side, tokenize in zip(sides, (source, target))]
        if len(sides) != 2 or not all(forms):
            raise UserError(
                f"{place}: must be a term and its translation, with a tab between them, but is "
                f"'{clean(' '.join(sides))[:60]}'"
            )
        term = Term(clean(sides[0]), " ".join(forms[1][0]), tuple(forms[1]))
        for words in forms[0]:
            if (known := terms.setdefault(words, term).translation) != term.translation:
                raise UserError(
                    f"{place}: '{term.text}' must have one translation, but has '{known}' and '{term.translation}'"
                )
    return terms


def with_first_words(terms: Terms, truecase: Callable[[str], str]) -> Terms:
    """Return terms, and their forms at the start of a sentence in true case; a term of such a form comes first."""
    return {**{tuple(truecase(" ".join(words)).split()): each for words, each in terms.items()}, **terms}


def terms_of(tokens: str, terms: Terms) -> list[Term]:
    """Return the terms in a line of tokens, each once: the longest at each place, from left to right."""
    found: list[Term] = []
    end = 0
    for place, length, term in places_of(tokens, terms):
        if place >= end:
            found.append(term)
            end = place + length
    return list(dict.fromkeys(found))


def places_of(tokens: str, terms: Terms) -> Iterator[tuple[int, int, Term]]:
    """Give the place and the length in words of each term in a line of tokens, from left to right, the longest first.

    A term inside another one is given, too.
    """
    words, longest = tokens.split(), max(map(len, terms))
    for place in range(len(words)):
        for length in range(min(longest, len(words) - place), 0, -1):
            if (term := terms.get(tuple(words[place : place + length]))) is not None:
                yield place, length, term
