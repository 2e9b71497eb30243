"""Tokens of clean lines, where each run of non-white space is cut once and remembered.

A run sees little of the text around it: a `Line`'s knowledge of the words before it, and the first character of the
next run. Its tokens therefore depend on its state, which is its view of the `Line`, and on whether it ends the line.
For some runs, they also depend on the kind of that character.
"""

import re

from deepnmt.text.cutting import Cutter
from deepnmt.text.signs import APOSTROPHES, CURRENCY, WIDE
from deepnmt.text.spacing import QUOTE, WORD, Line, Spacing

REMEMBERED, MOST_SHAPES = 1 << 17, 1 << 15
USUAL = 32  # characters of a run that counts once
# At the end of a run: a full stop may belong to an abbreviation, and others may attach to the next word.
SEES_NEXT = re.compile(rf"[.{APOSTROPHES}{CURRENCY}]")
# In its place where the next run has no influence, if there is one.
ANY = "-"
# Latin, Greek, Cyrillic, Armenian, Hebrew and Arabic letters. No rule sees more of them than the first and the last one
# of a row, and of these only whether it is a small one, and whether it is an s; lists of abbreviations aside. All
# digits are alike.
LETTERS = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02af\u0388-\u038a\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u0561-\u0587\u05d0-\u05ea\u0620-\u064a\u0671-\u06d3"
)
# Words of letters, and the first run after them that is something else or the last one.
RUNS = re.compile(f"([{LETTERS} ]*(?<![^ ]))([^ ]+)")
INNER, PARTS = re.compile(f"(?<=[{LETTERS}])[{LETTERS}]+(?=[{LETTERS}])"), re.compile(f"[{LETTERS}]+|[0-9]+")
SHAPES = {
    ord(sign): "\u01dd" if sign.islower() else "\u018e"
    for sign in re.findall(f"[{LETTERS}]", "".join(map(chr, range(0x6D4))))
}
SHAPES |= {ord("s"): "s"} | dict.fromkeys(map(ord, "0123456789"), "0")
# Entities aside.
IN_TOKENS = re.compile(f"&[^;]+;|({PARTS.pattern})")
_WIDE = re.compile(f"[{WIDE}]")


class State:
    """A line before one of its runs, as the run sees it.

    Attributes:
        line: knowledge of such a line
        inside: tokens and next state of runs that do not end their line
        before: the same of runs before a character of a kind
        last: tokens of runs that end their line
        plain: states after words of letters, by their last letter
        shapes: tokens of runs of a shape, with a gap for each row of letters or digits, and the next state
    """

    __slots__ = ("before", "inside", "last", "line", "plain", "shapes")

    def __init__(self, line: Line) -> None:
        self.line = line
        self.plain: dict[str, State] = {}
        self.shapes: dict[tuple[str, str], tuple[str, State]] = {}
        self.forget()

    def forget(self) -> None:
        """Forget runs."""
        self.inside: dict[str, tuple[str, State]] = {}
        self.before: dict[tuple[str, str], tuple[str, State]] = {}
        self.last: dict[str, str] = {}


class MarkedRuns:
    """Turns clean lines of a language into tokens with marks, as `Cutter` and `Spacing` do together."""

    def __init__(self, language: str) -> None:
        self._cutter, self._spacing = Cutter(language), Spacing(language)
        # Parts of abbreviations, which are no words like others.
        self._listed = frozenset(PARTS.findall(" ".join(self._cutter.abbreviations)))
        self._forget()

    def _forget(self) -> None:
        self._remembered = self._shapes = 0
        # One character or state for all that runs cannot tell apart.
        self._kinds: dict[tuple[bool, ...], str] = {}
        self._firsts: dict[str, str] = {}
        self._states: dict[tuple[object, ...], State] = {}
        self._start = State(self._spacing.start())

    def _remember(self, run: str) -> None:
        # A run of a whole text weighs as much as many words.
        self._remembered += 1 + len(run) // USUAL

    def __call__(self, line: str) -> str:
        """Return the tokens of a line."""
        if self._shapes > MOST_SHAPES:
            self._forget()
        if self._remembered > REMEMBERED:
            self._remembered = 0
            for each in (self._start, *self._states.values()):
                each.forget()
        found = RUNS.findall(line)
        state, texts = self._start, []
        for place, (words, run) in enumerate(found, start=1):
            if len(words) > 1:
                after = state.plain.get(words[-2]) or self._after_words(state, words[-2])
                if after is None:
                    return self._each_run(line)
                state = after
            texts.append(words)
            if place == len(found):
                texts.append(self._last(state, run))
            else:
                next_ = state.inside.get(run)
                if next_ is None:
                    words, following = found[place]
                    next_ = self._found(state, run, words[1] if len(words) > 1 else following[0])
                texts.append(next_[0])
                state = next_[1]
        return "".join(texts)

    def _each_run(self, line: str) -> str:
        """Return the tokens of a line where a sign changes the word after it."""
        runs = line.split()
        state, tokens = self._start, []
        for run, following in zip(runs, runs[1:]):
            text, state = self._found(state, run, following[0])
            tokens.append(text)
        return " ".join([*tokens, self._last(state, runs[-1])])

    def _after_words(self, state: State, last: str) -> State | None:
        """Return the state after words of letters with a space before each, which no rule changes."""
        if state.line.last and not state.line.after:
            return None
        line = state.line.copy()
        line.last, line.kind, line.after = last, WORD, True
        state.plain[last] = self._after(line)
        return state.plain[last]

    def _last(self, state: State, run: str) -> str:
        """Return the tokens of a run that ends its line."""
        tokens = state.last.get(run)
        if tokens is None:
            self._remember(run)
            tokens = state.last[run] = self._cut(state, run, "")[0]
        return tokens

    def _found(self, state: State, run: str, following: str) -> tuple[str, State]:
        """Return the tokens of a run, and the state after it, before a run that begins with `following`."""
        if following not in self._firsts:
            is_digit = following.isdigit()
            kind = following.islower(), following.isalpha(), is_digit, is_digit and following.isascii()
            self._firsts[following] = self._kinds.setdefault(kind, following)
        following = self._firsts[following]
        found = state.inside.get(run) or state.before.get((run, following))
        if found is None:
            self._remember(run)
            if SEES_NEXT.match(run[-1]):
                found = state.before[run, following] = self._cut(state, run, following)
            else:
                found = state.inside[run] = self._cut(state, run, ANY)
        return found

    def _cut(self, state: State, run: str, following: str) -> tuple[str, State]:
        """Return the tokens of a run, which its shape tells unless it is rare, and the state after it."""
        if len(run) > USUAL or "://" in run:
            return self._cut_whole(state, run, following)
        shape, parts = INNER.sub("", run).translate(SHAPES), PARTS.findall(run)
        if "." in run and not self._listed.isdisjoint(parts + PARTS.findall(shape)):
            return self._cut_whole(state, run, following)
        found = state.shapes.get((shape, following))
        if found is None:
            self._shapes += 1
            tokens, after = self._cut_whole(state, shape, following)
            found = IN_TOKENS.sub(lambda part: "%s" if part[1] else part[0], tokens.replace("%", "%%")), after
            state.shapes[shape, following] = found
        return found[0] % tuple(parts), found[1]

    def _cut_whole(self, state: State, run: str, following: str) -> tuple[str, State]:
        line = state.line.copy()
        words = self._cutter.words_of(run, not line.last, following)
        spaced = [True, *[False] * (len(words) - 1)]
        tokens = self._spacing.tokens_after(line, words, spaced, following)
        return " ".join(tokens), self._after(line)

    def _after(self, line: Line) -> State:
        """Return the state of a line, the same for all lines that no rule tells apart where white space follows."""
        if line.kind != QUOTE:
            sign = line.last[-1]
            seen = sign == "s" and line.language == "en", sign.isdigit(), bool(_WIDE.match(sign))
            line.last = self._kinds.setdefault(seen, sign)
            line.kind = line.kind if line.wide else WORD
        return self._states.setdefault((line.last, line.kind, line.after, frozenset(line.open)), State(line))
