"""Tokens of clean lines, where each run of non-white space is cut once and remembered.

A run sees little of the text around it: a `Line`'s knowledge of the words before it, and the first character of the
next run. Its tokens therefore depend on its state, which is its view of the `Line`, and on whether it ends the line.
For some runs, they also depend on the kind of that character.
"""

import re

from deepnmt.text.cutting import Cutter
from deepnmt.text.signs import APOSTROPHES, CURRENCY, WIDE, is_wide_language
from deepnmt.text.spacing import QUOTE, WORD, Line, Spacing

REMEMBERED = 1 << 17
USUAL = 32  # characters of a run that counts once
# At the end of a run: a full stop may belong to an abbreviation, and others may attach to the next word.
SEES_NEXT = re.compile(rf"[.{APOSTROPHES}{CURRENCY}]")
# Letters before it are neither wide nor ideographs.
FIRST_OTHER = "\u1100"
_WIDE = re.compile(f"[{WIDE}]")


class State:
    """A line before one of its runs, as the run sees it.

    Attributes:
        line: knowledge of such a line
        inside: tokens and next state of runs that do not end their line
        before: the same of runs before a character of a kind
        last: tokens of runs that end their line
        plain: states after words of letters, by the last character
    """

    __slots__ = ("before", "inside", "last", "line", "plain")

    def __init__(self, line: Line) -> None:
        self.line = line
        self.inside: dict[str, tuple[str, State]] = {}
        self.before: dict[tuple[str, str], tuple[str, State]] = {}
        self.last: dict[str, str] = {}
        self.plain: dict[str, State] = {}


class MarkedRuns:
    """Turns clean lines of a language into tokens with marks, as `Cutter` and `Spacing` do together."""

    def __init__(self, language: str) -> None:
        self._cutter, self._spacing = Cutter(language), Spacing(language)
        main = self._spacing.language
        # They are always set apart from the word of letters before them, without a space.
        self._closers = "" if is_wide_language(main) else ",." if main == "fr" else ",.;:!?"
        self._forget()

    def _forget(self) -> None:
        self._remembered = 0
        # One character or state for all that runs cannot tell apart.
        self._kinds: dict[tuple[bool, ...], str] = {}
        self._states: dict[tuple[object, ...], State] = {}
        self._start = State(self._spacing.start())

    def _remember(self, run: str) -> None:
        # A run of a whole text weighs as much as many words.
        self._remembered += 1 + len(run) // USUAL

    def __call__(self, line: str) -> str:
        """Return the tokens of a line."""
        if self._remembered > REMEMBERED:
            self._forget()
        runs = line.split()
        if not runs:
            return ""
        state, tokens = self._start, []
        for place, run in enumerate(runs[:-1], start=1):
            found = state.inside.get(run)
            text, state = self._found(state, run, runs[place][0]) if found is None else found
            tokens.append(text)
        run = runs[-1]
        last = state.last.get(run)
        if last is None:
            self._remember(run)
            last = state.last[run] = self._cut(state, run, "")[0]
        tokens.append(last)
        return " ".join(tokens)

    def _found(self, state: State, run: str, following: str) -> tuple[str, State]:
        """Return the tokens of a run, and the state after it, before a run that begins with `following`."""
        if not SEES_NEXT.match(run[-1]):
            self._remember(run)
            found = state.inside[run] = self._cut(state, run, following)
            return found
        is_digit = following.isdigit()
        kind = following.islower(), following.isalpha(), is_digit, is_digit and following.isascii()
        key = run, self._kinds.setdefault(kind, following)
        if key not in state.before:
            self._remember(run)
            state.before[key] = self._cut(state, run, following)
        return state.before[key]

    def _cut(self, state: State, run: str, following: str) -> tuple[str, State]:
        line = state.line
        word = run[:-1] if run[-1] in self._closers else run
        if word.isalpha() and max(word) < FIRST_OTHER and (line.after or not line.last):
            return self._plain(state, word, run[len(word) :], following)
        line = line.copy()
        words = self._cutter.words_of(run, not line.last, following)
        spaced = [True, *[False] * (len(words) - 1)]
        tokens = self._spacing.tokens_after(line, words, spaced, following)
        return " ".join(tokens), self._after(line)

    def _plain(self, state: State, word: str, sign: str, following: str) -> tuple[str, State]:
        """Return the result of the general rules for a word of letters with a space before it."""
        if sign == "." and self._cutter.is_abbreviation(word, following):
            text = word + sign
        else:
            text = f"{word} {sign}" if sign else word
        last = sign or word[-1]
        if last not in state.plain:
            line = state.line.copy()
            line.last, line.kind, line.after = last, WORD, True
            state.plain[last] = self._after(line)
        return text, state.plain[last]

    def _after(self, line: Line) -> State:
        """Return the state of a line, the same for all lines that no rule tells apart where white space follows."""
        if line.kind != QUOTE:
            sign = line.last[-1]
            seen = sign == "s" and line.language == "en", sign.isdigit(), bool(_WIDE.match(sign))
            line.last = self._kinds.setdefault(seen, sign)
            line.kind = line.kind if line.wide else WORD
        return self._states.setdefault((line.last, line.kind, line.after, frozenset(line.open)), State(line))
