"""Chinese words, cut by jieba, and Chinese text without white space."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache

from deepnmt.errors import UserError
from deepnmt.text.units import escaped, unescaped

# Dashes, quotes and dots, ideographs and their punctuation, and full-width signs.
WIDE = "\u2014\u2018-\u201d\u2026\u3000-\u303f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
BESIDE_WIDE = re.compile(f"(?<=[{WIDE}]) | (?=[{WIDE}])")


@cache
def segmenter() -> Callable[[str], str]:
    """Return what turns a line into words. Raises `UserError` if jieba is not installed."""
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
    words = jieba.Tokenizer()

    def cut(line: str) -> str:
        return " ".join(word for word in (escaped(each.strip()) for each in words.cut(line)) if word)

    return cut


def joined(tokens: str) -> str:
    """Return words of Chinese as text: no space stands beside an ideograph or a full-width sign."""
    return unescaped(BESIDE_WIDE.sub("", tokens))
