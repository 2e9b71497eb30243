"""One code for one sign: steps on raw text before it is tokenised.

    width         full-width and small forms to the usual ones: U+FF01 to U+FF5E, U+3000, U+FE50 to U+FE6B
    nfkc          Unicode's NFKC, which turns superscripts, ligatures and the like into plain signs, too
    punctuation   Unicode's punctuation to ASCII, as Moses' replace-unicode-punctuation does, and then its normalisation
    simplified    traditional Chinese characters to simplified ones, each by itself

They are done in this order.
"""

import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

from deepnmt.errors import UserError
from deepnmt.text.languages import is_chinese
from deepnmt.text.moses import punctuation_normaliser, sacremoses

STEPS = ("width", "nfkc", "punctuation", "simplified")
SMALL_FORMS = range(0xFE50, 0xFE6C)


def parse_steps(text: str) -> tuple[str, ...]:
    """Return the steps that a comma stands between, in the order in which they are done.

    Raises `UserError` if one is unknown.
    """
    names = text.split(",") if text else []
    for name in names:
        if name not in STEPS:
            raise UserError(f"--normalise must have steps of {', '.join(STEPS)}, but has '{name}'")
    return tuple(step for step in STEPS if step in names)


def normaliser(steps: Sequence[str], language: str) -> Callable[[str], str]:
    """Return the function that does the steps to a line of a language."""
    table: dict[int, str] = {}
    if "simplified" in steps and is_chinese(language):
        table = _simplified()
    punctuation = punctuation_normaliser(language, pre_replace_unicode_punct=True) if "punctuation" in steps else str

    def normalise(text: str) -> str:
        if "width" in steps and not text.isascii():
            text = text.translate(_WIDTH)
        if "nfkc" in steps:
            text = unicodedata.normalize("NFKC", text)
        return punctuation(text).translate(table) if table else punctuation(text)

    return normalise


@cache
def _simplified() -> dict[int, str]:
    sacremoses()  # which imports less than the package itself
    from sacremoses.chinese import simplified_chinese, traditional_chinese

    # The first of several translations of a character, as sacremoses has it.
    pairs = reversed(list(zip(traditional_chinese, simplified_chinese)))
    return {ord(traditional): simplified for traditional, simplified in pairs}


_WIDTH = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
_WIDTH |= {0x3000: " "} | {code: unicodedata.normalize("NFKC", chr(code)) for code in SMALL_FORMS}
