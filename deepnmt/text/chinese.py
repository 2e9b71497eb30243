"""Chinese words, cut by jieba, and Chinese text without white space."""

import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache

from deepnmt.errors import UserError
from deepnmt.text.units import escaped, unescaped

# Dashes, quotes and dots, ideographs and their punctuation, and full-width signs.
WIDE = "\u2014\u2018-\u201d\u2026\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
BESIDE_WIDE = re.compile(f"(?<=[{WIDE}]) | (?=[{WIDE}])")


def jieba_cutter() -> Callable[[str], tuple[list[str], list[bool]]]:
    """Return the function that gives the words of a line, and whether a space stands before each.

    Raises `UserError` if jieba is not installed.
    """
    pieces = _jieba()

    def cut(line: str) -> tuple[list[str], list[bool]]:
        words: list[str] = []
        spaced: list[bool] = []
        space = False
        for piece in pieces(line):
            parts = piece.split()
            spaced += [space or piece[0].isspace(), *[True] * (len(parts) - 1)] if parts else []
            words += parts
            space = piece[-1].isspace()
        return words, spaced

    return cut


@cache
def segmenter() -> Callable[[str], str]:
    """Return the function that turns a line into words. Raises `UserError` if jieba is not installed."""
    words = _jieba()

    def cut(line: str) -> str:
        return " ".join(word for word in (escaped(each.strip()) for each in words(line)) if word)

    return cut


@cache
def _jieba() -> Callable[[str], Iterator[str]]:
    """Return the function that cuts a line into words and white space. Raises `UserError` without jieba."""
    try:
        with warnings.catch_warnings():
            # Of pkg_resources, which jieba imports.
            warnings.simplefilter("ignore")
            import jieba
    except ImportError:
        raise UserError(
            "--segment jieba: jieba must be installed, but is not: pip install 'deepnmt[chinese]'"
        ) from None
    jieba.setLogLevel("ERROR")
    cut: Callable[[str], Iterator[str]] = jieba.Tokenizer().cut
    return cut


def joined(tokens: str) -> str:
    """Return words of Chinese as text: no space stands beside an ideograph or a full-width sign."""
    return unescaped(BESIDE_WIDE.sub("", tokens))
