"""Words that must stay whole: hidden from the tokeniser, and not cut into subwords.

A pattern is a regular expression of a whole unit, such as `\\d+ ?km/h` or `[A-Z]{2,}-\\d+`. A unit with white space is
still several words.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines
from deepnmt.text.signs import marks

# As sacremoses writes and reads them in tokens.
ESCAPES = {"&": "&amp;", "|": "&#124;", "<": "&lt;", ">": "&gt;", "'": "&apos;", '"': "&quot;"}
ESCAPES |= {"[": "&#91;", "]": "&#93;"}
# Tokens that say whether a space stands between those beside them, which text that has them must not be taken for.
ATTACHED, SPACED = "\u203f", "\u2423"
ALL_ESCAPES = {**ESCAPES, ATTACHED: "&#8255;", SPACED: "&#9251;"}
ESCAPED = re.compile("|".join(map(re.escape, ALL_ESCAPES.values())))
UNESCAPES = {escaped: sign for sign, escaped in ALL_ESCAPES.items()}
_TABLE = str.maketrans(ALL_ESCAPES)
MARK = "QUNITQ"
# Compiling takes seconds for a million signs, and each process of a job does it.
LONGEST_PATTERN = 100_000


def read_patterns(path: Path) -> list[str]:
    """Return the patterns in a file, one per line.

    Raises `UserError` if there are no patterns, or one is no regular expression or matches nothing at all.
    """
    if not path.is_file():
        raise UserError(f"--protect must be a file of patterns, but there is no '{path}'")
    patterns = []
    for number, line in enumerate(read_lines(path), start=1):
        pattern = line.rstrip("\r\n")
        if not pattern:
            continue
        if fault := pattern_fault(pattern):
            raise UserError(f"{path}:{number}: {fault}")
        patterns.append(pattern)
    if not patterns:
        raise UserError(f"{path}: contains no patterns")
    return patterns


def pattern_fault(pattern: str) -> str:
    """Return the fault of a pattern; empty if it has no fault."""
    if len(pattern) > LONGEST_PATTERN:
        return f"must be a pattern of at most {LONGEST_PATTERN} signs, but has {len(pattern)}"
    try:
        empty = re.compile(pattern).fullmatch("")
    except (re.error, OverflowError, RecursionError) as error:
        return f"must be a regular expression, but is '{pattern[:60]}': {error}"
    return f"must be a pattern of at least one sign, but '{pattern[:60]}' matches none" if empty else ""


def escaped(text: str) -> str:
    """Return text as it stands in tokens."""
    return "".join(ESCAPES.get(sign, sign) for sign in text)


def escaped_all(text: str) -> str:
    """Return text as it stands in tokens that have marks for spaces."""
    return text.translate(_TABLE)


def unescaped(token: str) -> str:
    """Return the text of a token."""
    return ESCAPED.sub(lambda found: UNESCAPES[found[0]], token)


class Units:
    """Finds units by the patterns of whole ones, perhaps ignoring case, as for text that was lower-cased."""

    def __init__(self, patterns: Sequence[str], ignore_case: bool = False) -> None:
        self.patterns = [re.compile(pattern, re.IGNORECASE if ignore_case else 0) for pattern in patterns]

    def __contains__(self, token: object) -> bool:
        """Return whether a token is a unit."""
        text = unescaped(str(token))
        return any(pattern.fullmatch(text) for pattern in self.patterns)

    def hide(self, text: str) -> tuple[str, list[str], str]:
        """Return text with a word of letters in place of each unit, the units, and the start of these words."""
        mark = MARK
        if not self.patterns:
            return text, [], mark
        while mark in text:
            mark += "Q"
        parts: list[str] = []
        found: list[str] = []
        end = 0
        for begin, to in self._spans(text):
            parts += [text[end:begin], mark + str(len(found)).translate(LETTERS) + "Q"]
            found.append(text[begin:to])
            end = to
        return "".join([*parts, text[end:]]), found, mark

    def _spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where units are, from left to right; of several that begin at one place the longest."""
        spans = sorted(
            (match.span() for pattern in self.patterns for match in pattern.finditer(text) if match[0]),
            key=lambda span: (span[0], -span[1]),
        )
        end = 0
        for begin, to in spans:
            if begin >= end:
                yield begin, to
                end = to


LETTERS = str.maketrans("0123456789", "abcdefghij")
NUMBERS = str.maketrans("abcdefghij", "0123456789")


def shown(tokens: str, found: Sequence[str], mark: str) -> str:
    """Return tokens with the units that were hidden, as they stand in tokens."""
    return _shown(tokens, list(map(escaped, found)), mark)


def shown_words(
    words: Sequence[str], spaced: Sequence[bool], found: Sequence[str], mark: str, letters: str = ""
) -> tuple[list[str], list[bool]]:
    """Return words with the units that were hidden, and whether spaces stand before them.

    A unit is set apart from signs beside it that were not cut from letters, and is itself perhaps several words.

    Args:
        words: in whose place units are hidden
        mark: what their words begin with
        letters: that units are set apart from, too; members of a class of regular expressions
    """
    all_words: list[str] = []
    all_spaced: list[bool] = []
    for word, space in zip(words, spaced):
        for part in _apart(word, mark, letters) if mark in word else [word]:
            parts = _shown(part, found, mark).split()
            all_words += parts
            all_spaced += [space, *[True] * (len(parts) - 1)]
            space = False
    return all_words, all_spaced


def _apart(word: str, mark: str, letters: str) -> list[str]:
    sign = rf"(?:[^\w.{marks()}-]{letters and f'|[{letters}]'})"
    return re.sub(rf"({mark}[a-j]+Q)(?={sign})", r"\1 ", re.sub(rf"(?<={sign})(?={mark})", " ", word)).split(" ")


def _shown(text: str, found: Sequence[str], mark: str) -> str:
    return re.sub(f"{mark}([a-j]+)Q", lambda match: found[int(match[1].translate(NUMBERS))], text)
