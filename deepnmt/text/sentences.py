"""Split a line into its sentences, by the library sentencex, without changing a character.

sentencex takes a German ordinal before a noun, as in "die 2. Auflage", for the end of a sentence. So a part
that ends in an article, a preposition or "und" and a number of up to two digits is joined with the next.
"""

import logging
import re
from collections.abc import Callable
from functools import cache
from itertools import accumulate, pairwise

from deepnmt.text.languages import main_language
from deepnmt.text.lines import CONTROL

LOG = logging.getLogger(__name__)
# The library fails at white space of several bytes, and takes other control characters for text.
WHITE_SPACE = re.compile(rf"[^\S ]|\ufeff|{CONTROL.pattern}")
# Characters that the library is given at a time.
WINDOW = 10_000
BEFORE_ORDINALS = (
    "der die das dem den des ein eine einem einen einer eines "
    "ab am an ans auf aufs aus bei beim bis durch fürs für gegen im in ins mit nach neben ohne seit über um unter vom "
    "von vor während wegen zu zum zur zwischen und"
)
ORDINAL = re.compile(rf"\b(?:{BEFORE_ORDINALS.replace(' ', '|')}) +\d{{1,2}}\.\Z", re.IGNORECASE)


def split_sentences(line: str, language: str) -> list[str]:
    """Return the sentences of a line, each with the white space after it; joined, they are the line.

    Args:
        line: without line feeds
        language: such as de, zh-TW or de_AT
    """
    segment = _segmenter()
    if segment is None:
        return [line]
    main = main_language(language)
    end, ends, goes_on = 0, [0], True
    for part in _parts(segment, main, WHITE_SPACE.sub(" ", line)):
        if not goes_on:
            ends.append(end)
        end += len(part)
        # Of a long part, the end alone is searched.
        goes_on = part.isspace() or (main == "de" and ORDINAL.search(part.rstrip()[-30:]) is not None)
    return [line[start:stop] for start, stop in pairwise([*ends, len(line)])] if end == len(line) else [line]


def _parts(segment: Callable[[str, str], list[str]], language: str, line: str) -> list[str]:
    """Return the library's parts of a line.

    The time for some signs, such as quotes that never end, grows with the square of the length. A long line is
    therefore read through a window, whose second half tells only where the first half ends. A part that fills the
    window is longer than a sentence can be: the line stays whole from there on.
    """
    found: list[str] = []
    while len(line) > WINDOW:
        *whole, _ = _read(segment, language, line[:WINDOW])
        ends = accumulate(map(len, whole))
        parts = [part for part, end in zip(whole, ends) if end <= WINDOW // 2] or whole
        if not any(parts):
            return [*found, line]
        found += parts
        line = line[sum(map(len, parts)) :]
    return [*found, *_read(segment, language, line)]


def _read(segment: Callable[[str, str], list[str]], language: str, line: str) -> list[str]:
    try:
        return segment(language, line)
    except BaseException as error:
        # A fault of the library's is no `Exception`.
        if type(error).__name__ != "PanicException":
            raise
        return [line]


@cache
def _segmenter() -> Callable[[str, str], list[str]] | None:
    """Return sentencex's function, or None without the library, which one line says once."""
    try:
        from sentencex import segment
    except ImportError:
        LOG.warning("sentencex is not installed, so each line is translated as one sentence: pip install sentencex")
        return None
    found: Callable[[str, str], list[str]] = segment
    return found
