"""A glossary: terms whose translations stand beside them in the line that a model reads (`inline_targets.py`).

Terms are found in tokens, in their own case: the longest at each place, from left to right. Where a sentence begins, a
term also matches with a capital. In languages without spaces between words, terms are found inside tokens.
"""

from collections.abc import Sequence

from deepnmt.text.inline_targets import inline
from deepnmt.text.languages import is_unspaced
from deepnmt.text.settings import TextSettings
from deepnmt.text.terms import Term, Terms, Words
from deepnmt.text.truecase import first_words
from deepnmt.text.words import signs_of


class Glossary:
    """Finds terms, by the words of each form, and puts their translations beside them."""

    def __init__(self, terms: Terms, settings: TextSettings) -> None:
        self.terms = terms
        self._unspaced = is_unspaced(settings.source_lang)
        self._cased = not settings.lowercase
        # In true case, the first word of a translation gets its capital at the end.
        self._capitals = self._cased and not settings.truecase
        source, self._target = map(settings.casing, settings.languages)
        self._known: dict[Words, Term] = {}
        for words, term in terms.items():
            self._known.setdefault(tuple(part for part, _ in self._parts(words)), term)
        self._first = {(source.capitalised(words[0]), *words[1:]): each for words, each in self._known.items()}
        self._longest = max(map(len, self._known), default=0)

    def inline(self, tokens: str) -> tuple[str, list[Term]]:
        """Return a line of tokens with translations beside its terms, and the terms in their order."""
        words = tokens.split()
        parts = self._parts(words)
        first = set(first_words(words)) if self._cased else set()
        line: list[str] = []
        found: list[Term] = []
        place = begin = 0
        while place < len(parts):
            # Only where a word begins, but for scripts that have no spaces.
            starts = place == 0 or parts[place - 1][1] != parts[place][1]
            length, term, capital = self._longest_at(parts, place, starts and parts[place][1] in first)
            if term is not None:
                translation = term.translation.split()
                if capital:
                    translation[0] = self._target.capitalised(translation[0])
                line += _joined(parts[begin:place])
                begin = place + length
                line += inline(_joined(parts[place:begin]), translation)
                found.append(term)
            place += length
        return " ".join(line + _joined(parts[begin:])), found

    def _longest_at(self, parts: Sequence[tuple[str, int]], place: int, first: bool) -> tuple[int, Term | None, bool]:
        """Return the length in parts of the longest term at a place, the term, and whether a capital is due."""
        for length in range(min(self._longest, len(parts) - place), 0, -1):
            words = tuple(part for part, _ in parts[place : place + length])
            if (term := self._known.get(words)) is not None:
                return length, term, False
            if first and (term := self._first.get(words)) is not None:
                return length, term, self._capitals
        return 1, None, False

    def _parts(self, words: Sequence[str]) -> list[tuple[str, int]]:
        """Return the parts of terms, each with the number of its token: words, or signs of unspaced text."""
        if not self._unspaced:
            return [(word, number) for number, word in enumerate(words)]
        return [(sign, number) for number, word in enumerate(words) for sign in signs_of(word)]


def _joined(parts: Sequence[tuple[str, int]]) -> list[str]:
    """Return the tokens of some parts, joining the parts of one token."""
    words: list[str] = []
    last = -1
    for part, number in parts:
        if number == last:
            words[-1] += part
        else:
            words.append(part)
        last = number
    return words
