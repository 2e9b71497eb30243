"""Spaces between tokens: Moses' rules derive them from the tokens, or else a mark gives them.

    ‿  nothing stands between the tokens beside it        and ‿ / ‿ or
    ␣  a space stands between them                        see " ␣ and " ␣ below

A mark is a token of its own: words, units and terms are the same with and without it. The tokeniser writes one only
where the rules would be wrong; the same rules then read it. So the tokens of any text give it back unchanged.

The rules go from left to right, and remember only the open quotation marks of a line.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from deepnmt.text.languages import main_language
from deepnmt.text.signs import (
    APOSTROPHES,
    CLOSERS,
    CURRENCY,
    DASHES,
    DOUBLE_QUOTES,
    ELISION,
    GUILLEMETS,
    OPENERS,
    OTHER_CLOSERS,
    SAME_QUOTES,
    SINGLE_GUILLEMETS,
    SINGLE_QUOTES,
    SPACED_CLOSERS,
    SPACED_GUILLEMETS,
    WIDE,
    WIDE_SIGNS,
    is_wide_language,
)
from deepnmt.text.units import ATTACHED, SPACED, escaped_all, unescaped

WORD, OPEN, MONEY, CLOSE, QUOTE, WIDE_WORD, WIDE_SIGN, SECOND, ELIDED = range(9)
REMEMBERED = 1 << 16
LONGEST_REMEMBERED = 100  # characters
_WIDE, _WIDE_SIGN = re.compile(f"[{WIDE}]"), re.compile(f"[{WIDE_SIGNS}]")
_ASIAN_SIGN = re.compile(f"[{WIDE_SIGNS}{DASHES}“”‘’…]+")
_OPEN, _MONEY = re.compile(rf"[{re.escape(OPENERS)}{CURRENCY}]+"), re.compile(f"[{CURRENCY}]+")
_CLOSE = re.compile(rf"[{re.escape(CLOSERS)}{OTHER_CLOSERS}]+")
_QUOTE = re.compile(rf"['`{DOUBLE_QUOTES}]+|[{GUILLEMETS}{SINGLE_GUILLEMETS}{SINGLE_QUOTES}’]")


class Spacing:
    """Tells where spaces stand between the tokens of one language.

    `segmented`: words of wide characters were cut apart, also from others.
    """

    def __init__(self, language: str, segmented: bool = False) -> None:
        self.language, self.segmented = main_language(language), segmented

    def marked(self, words: Sequence[str], spaced: Sequence[bool]) -> str:
        """Return the tokens of words and signs, not escaped, with marks; `spaced` tells of a space before each."""
        return " ".join(self.tokens_after(self.start(), words, spaced))

    def start(self) -> "Line":
        """Return the knowledge of a line before its first word."""
        return Line(self.language, self.segmented)

    def tokens_after(
        self, line: "Line", words: Sequence[str], spaced: Sequence[bool], following: str = ""
    ) -> list[str]:
        """Return the tokens of the next words of a line, which then knows these too.

        Args:
            following: first character of the word after these; empty: they end the line
        """
        tokens: list[str] = []
        for place, word in enumerate(words):
            told = None
            if line.last and line.guess(word) != spaced[place]:
                told = spaced[place]
                tokens.append(SPACED if told else ATTACHED)
            line.add(word, words[place + 1] if place + 1 < len(words) else following, told)
            tokens.append(word if word.isalnum() else escaped_all(word))
        return tokens

    def text(self, tokens: str) -> str:
        """Return the text of tokens. A model may write marks anywhere: the last of several counts."""
        words: list[str] = []
        marks: dict[int, bool] = {}
        for token in tokens.split():
            if token in (ATTACHED, SPACED):
                marks[len(words)] = token == SPACED
            else:
                words.append(unescaped(token) if "&" in token else token)
        line = self.start()
        parts: list[str] = []
        for place, word in enumerate(words):
            guess, told = line.guess(word), marks.get(place) if place else None
            if place and (guess if told is None else told):
                parts.append(" ")
            parts.append(word)
            line.add(word, words[place + 1] if place + 1 < len(words) else "", None if told == guess else told)
        return "".join(parts)


class Line:
    """The rules' knowledge of a line after some of its words."""

    def __init__(self, language: str, segmented: bool) -> None:
        self.language, self.segmented = language, segmented
        self.wide = is_wide_language(language)
        # The last word, its kind, whether a space would follow it, and the quotation marks that are open.
        self.last, self.kind, self.after = "", WORD, False
        self.open: set[str] = set()

    def copy(self) -> "Line":
        """Return the same knowledge once more."""
        other = Line.__new__(Line)
        other.__dict__.update(self.__dict__, open=set(self.open))
        return other

    def guess(self, word: str) -> bool:
        """Return whether the next word has a space before it."""
        kind = _kind(word, self.language)
        if kind == WORD:
            if self.segmented and self.last and _WIDE.match(self.last[-1]):
                return False
            return self.after
        if kind == CLOSE:
            return self.language == "fr" and word in SPACED_CLOSERS
        if kind == SECOND:
            return not self.last
        if kind == WIDE_SIGN:
            return False
        if kind == WIDE_WORD:
            beside = self.segmented or (self.wide and self.kind not in (WORD, ELIDED))
            return self.after and not beside and not (self.last and _WIDE.match(self.last[-1]))
        if self.wide and self.last and _WIDE.match(self.last[-1]):
            return False
        if kind == QUOTE and (self._closes(word) or self._ends_genitive(word)):
            return False
        return self.after

    def add(self, word: str, following: str, told: bool | None) -> None:
        """Go beyond a word; `following` is empty for the last. `told` may correct the guess of a space before it."""
        if told is not None and self.kind == QUOTE:
            # It was of the other kind.
            if told:
                self.open.discard(_pair(self.last))
            else:
                self.open.add(_pair(self.last))
        kind = _kind(word, self.language)
        after = True
        if kind == OPEN or (kind == ELIDED and following[:1].isalpha()):
            after = False
        elif kind == MONEY:
            amount = self.last[-1:].isdigit() and not following[:1].isdigit() and "$" not in word
            after = amount
        elif kind == WIDE_SIGN:
            after = False
        elif kind == QUOTE and not self._ends_genitive(word):
            after = self._quote(word, told)
        self.last, self.kind, self.after = word, kind, after

    def _quote(self, word: str, told: bool | None) -> bool:
        """Open or close quotation marks, and return whether a space comes after them."""
        closes = self._closes(word)
        if told is False and not closes and self.last[-1:].isalnum():
            # Inches, or an apostrophe.
            return True
        if told and closes:
            closes = False
        if closes:
            self.open.discard(_pair(word))
        else:
            self.open.add(_pair(word))
        return closes

    def _closes(self, word: str) -> bool:
        if word == "’":
            return self.language not in SAME_QUOTES or "’" in self.open
        return _pair(word) in self.open

    def _ends_genitive(self, word: str) -> bool:
        """Return whether it is the apostrophe of the Joneses' house."""
        return self.language == "en" and word == "'" and self.last[-1:] == "s" and "'" not in self.open


def _pair(quote: str) -> str:
    """Return which quotation marks these close, or are closed by."""
    for kind in (DOUBLE_QUOTES, GUILLEMETS, SINGLE_GUILLEMETS, SINGLE_QUOTES):
        if quote[0] in kind:
            return kind if kind != DOUBLE_QUOTES or set(quote) <= set("„“”") or quote == '"' else quote
    return quote


def _kind(word: str, language: str) -> int:
    """Return the kind of a word or sign."""
    return _remembered_kind(word, language) if len(word) <= LONGEST_REMEMBERED else _new_kind(word, language)


def _new_kind(word: str, language: str) -> int:
    first = word[0]
    if first.isalpha() and first < "\u1100":
        elides = language in ELISION and len(word) > 1 and word[-1] in APOSTROPHES and word[-2].isalpha()
        return ELIDED if elides else WORD
    if language != "ko":
        if (_ASIAN_SIGN if is_wide_language(language) else _WIDE_SIGN).fullmatch(word):
            return WIDE_SIGN
        if _WIDE.match(first):
            return WIDE_WORD
    if _OPEN.fullmatch(word):
        return MONEY if _MONEY.fullmatch(word) else OPEN
    if _CLOSE.fullmatch(word):
        return CLOSE
    if language == "en" and first in APOSTROPHES and word[1:2].isalpha():
        return SECOND
    if _QUOTE.fullmatch(word):
        return WORD if first in GUILLEMETS + SINGLE_GUILLEMETS and language in SPACED_GUILLEMETS else QUOTE
    return WORD


_remembered_kind = lru_cache(maxsize=REMEMBERED)(_new_kind)
