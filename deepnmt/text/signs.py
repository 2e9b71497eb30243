"""Classes of characters: letters, and signs that attach to the text before or after them.

The classes begin with Moses' lists, and add marks, joiners and punctuation of other scripts.
"""

import unicodedata
from functools import cache

from deepnmt.text.languages import is_chinese

# Written with an apostrophe after a word that loses its vowel: l'homme.
ELISION = frozenset(["fr", "it", "ca", "ga", "oc", "co", "wa", "fur", "lij", "vec", "scn", "sc", "lmo", "pms"])
# « so » in French; to Moses, whose tokens of English and German stay, they are words.
SPACED_GUILLEMETS = frozenset({"fr", "en", "de"})
# Both quotation marks are ’.
SAME_QUOTES = frozenset({"sv", "fi"})
APOSTROPHES = "'\u2019"

CURRENCY = "$¢£¤¥֏؋৲৳৻૱௹฿៛₠-\u20cf꠸﷼﹩＄￠￡￥￦"
OPENERS = "([{¿¡"
CLOSERS = ",.?!:;\\%}])"
# The French put a space before these.
SPACED_CLOSERS = frozenset("?!:;\\%")
# Ends and pauses in Arabic, Indic, Armenian, Ethiopic, Tibetan, Burmese, Khmer and Mongolian; doubled ones.
OTHER_CLOSERS = "،؛؟٪۔।॥։።፣፤፥፦፧།༎၊။។៕៖᠂᠃‼⁇⁈⁉‽"
DOUBLE_QUOTES, GUILLEMETS, SINGLE_GUILLEMETS, SINGLE_QUOTES = '"„“”', "«»", "‹›", "‚‘"
DASHES = "—―"
# CJK punctuation and full-width signs.
WIDE_SIGNS = (
    "\u3001-\u3004\u3008-\u3020\u3030\u303d-\u303f\ufe10-\ufe19\ufe30-\ufe4f"
    "\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff64"
)
# Moses' CJK characters, and full-width ones.
WIDE = (
    "\u1100-\u11ff\u2e80-\ua4cf\ua840-\ua87f\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff01-\uffe6"
    "\U00017000-\U00018aff\U0001b000-\U0001b12f\U0001b170-\U0001b2ff\U00020000-\U0002ffff"
)
# Letters of scripts without spaces between words: South-East Asian and Tibetan ones, Han and kana.
UNSPACED_LETTERS = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0002ffff"
)
# Signs that are words of their own to Moses, outside of their languages.
IDEOGRAPHS = (
    "\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0002ffff"
)
CJK = ("zh", "yue", "ja", "ko")


def is_wide_language(language: str) -> bool:
    """Return whether a main language is written in wide characters without spaces."""
    return is_chinese(language) or language == "ja"


@cache
def marks() -> str:
    """Return the members of a class of regular expressions: combining marks, joiners and other format characters."""
    return _ranges("M", "C")


@cache
def numbers() -> str:
    """Return the members of a class of regular expressions: digits and other numerals."""
    return _ranges("N")


def _ranges(*kinds: str) -> str:
    """Return the code point ranges of some general categories; of C, the format characters alone."""
    parts: list[list[int]] = []
    for code in (*range(0x20000), *range(0xE0000, 0xE0200)):
        kind = unicodedata.category(chr(code))
        if kind[0] in kinds and (kind[0] != "C" or kind == "Cf"):
            if parts and parts[-1][1] == code - 1:
                parts[-1][1] = code
            else:
                parts.append([code, code])
    return "".join(chr(first) if first == last else f"{chr(first)}-{chr(last)}" for first, last in parts)
