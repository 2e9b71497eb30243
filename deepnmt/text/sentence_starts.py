"""Starts of sentences in a line of tokens, as far as its signs tell.

A word has one of three places. After a colon, an ellipsis, an opening bracket or a quotation mark within a sentence,
either case is usual (`He said: “Yes.”`, `the “yes”`). The same is true after a question mark followed by a dash or a
closing quotation mark (`“Who?” he asked.`). In such a place, a word keeps its case in both directions, and says nothing
about its usual form.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum

from deepnmt.text.casing import DIGRAPH_IJ
from deepnmt.text.languages import main_language
from deepnmt.text.units import ATTACHED, SPACED, unescaped


class Place(Enum):
    """Where a word stands: first in its sentence, inside it, or where case is free."""

    FIRST = 1
    INSIDE = 2
    FREE = 3


FIRST, INSIDE, FREE = Place

FULL_STOPS = frozenset(".。．۔।॥։።។")
OTHER_ENDS = frozenset("?!？！؟‼⁇⁈⁉‽")
GREEK_QUESTION = frozenset(";\u037e")
COMMAS = frozenset(",;،؛、，；")
QUOTES, SINGLE_QUOTES = frozenset('"“”„‟«»＂「」『』〝〞〟'), frozenset("'‘’‚‛‹›`´")
DASHES = frozenset("-‐‑‒–—―−⸺⸻")
OPENING = frozenset("([{（［｛<•‣⁃▪▫◦●○■□►▶✓✔→*·#>")
ELLIPSIS = re.compile(r"…|⋯|\.\.")
NUMBER = r"\d+(?:[.,]\d+)*"
# `a` of `a )`, and labels that are one token already. A letter with a full stop would be an initial.
LABEL = re.compile(rf"(?:{NUMBER}|[^\W\d_]|[ivxlc]+|[IVXLC]+)")
LABEL_WITH_SIGN = re.compile(rf"[(\[]?{LABEL.pattern}[)\]]|{NUMBER}\.")
# Short forms that stay small at the beginning: Dutch 's ochtends, 't is, 'n dag. German alone goes on in small letters.
CLITIC = re.compile(r"['’‘`][stnkmr]|ŉ")
GERMAN = frozenset(("de", "deu", "ger", "gsw", "bar", "ksh"))
CLITIC_LANGUAGES = GERMAN | DIGRAPH_IJ | {"af", "afr", "nds", "lb", "ltz"}


def places_of(tokens: Sequence[str], language: str = "") -> Iterator[tuple[int, Place]]:
    """Yield number and place of each word in a line of tokens: of each token with a letter or a digit.

    Tokens are as in a text, with or without entities such as `&quot;`. An empty `language` is an unknown one.
    """
    name = main_language(language)
    clitics, greek = not name or name in CLITIC_LANGUAGES, name in ("el", "ell", "gre")
    place, asked, quoted = FIRST, False, False
    numbers = [number for number, token in enumerate(tokens) if token not in (ATTACHED, SPACED)]
    texts = [unescaped(tokens[number]) if "&" in tokens[number] else tokens[number] for number in numbers]
    for at, (number, text) in enumerate(zip(numbers, texts)):
        # Most of them, and soon told.
        if place is INSIDE and text.isalpha():
            yield number, place
            continue
        if any(map(str.isalnum, text)):
            if place is FIRST and _is_label(text, texts[at + 1 : at + 2]):
                yield number, FREE
            elif place is FIRST and clitics and _is_clitic(text, texts[at - 1 : at]):
                yield number, FREE
                place = INSIDE if name in GERMAN else place
            elif place is not INSIDE and not any(map(str.isalpha, text)):
                # `1.1 The aim`, `3 dogs`
                place = FREE
                yield number, place
            else:
                yield number, place
                place = INSIDE
            continue
        signs = frozenset(text)
        if ELLIPSIS.search(text) or ":" in signs or "：" in signs:
            place = FREE
        elif signs & (FULL_STOPS | OTHER_ENDS) or (greek and signs & GREEK_QUESTION):
            place, asked = FIRST, not signs & FULL_STOPS
        elif signs & COMMAS:
            place = INSIDE
        elif signs & (QUOTES | SINGLE_QUOTES):
            closes = quoted or not signs & QUOTES
            quoted ^= bool(signs & QUOTES)
            if place is INSIDE or (asked and closes):
                place = FREE
        elif signs & DASHES:
            place = FREE if place is FIRST and asked else place
        elif signs & OPENING and place is INSIDE:
            place = FREE


def _is_label(text: str, following: Sequence[str]) -> bool:
    """Return whether a text numbers the following words, as `1)` or `a` before a bracket."""
    closed = following and following[0] in (")", "]")
    return bool(LABEL_WITH_SIGN.fullmatch(text) or (closed and LABEL.fullmatch(text)))


def _is_clitic(text: str, before: Sequence[str]) -> bool:
    return bool(CLITIC.fullmatch(text) or (before and len(text) == 1 and CLITIC.fullmatch(before[0] + text)))


def is_headline(texts: Sequence[str], places: Sequence[Place]) -> bool:
    """Return whether all but the short words of a line have capitals, which then say nothing."""
    inner = [text for text, place in zip(texts, places) if place is INSIDE and text[:1].isalpha()]
    capitals = sum(text[:1] != text[:1].lower() for text in inner)
    return capitals >= 3 and all(text[:1] != text[:1].lower() or len(text) <= 3 for text in inner)


def is_in_capitals(texts: Sequence[str]) -> bool:
    """Return whether the words of a sentence have two letters at least, and capitals alone."""
    letters = [sign for text in texts for sign in text if sign.isalpha()]
    small = any(sign.islower() and sign != "ß" for sign in letters)
    return not small and sum(map(str.isupper, letters)) >= 2
