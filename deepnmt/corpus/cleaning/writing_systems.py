"""Which letters a language is written with, by the names that Unicode gives them."""

import sys
import unicodedata
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from deepnmt.text.languages import main_language
from deepnmt.text.words import LETTER

Marks = NDArray[np.bool_]
HAN = ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "BOPOMOFO")
# Languages by the beginnings of their letters' names.
SYSTEMS = {
    ("LATIN", "FULLWIDTH LATIN"): (
        "af az br bs ca ceb cs cy da de en eo es et eu fi fo fr fy ga gd gl ha hr ht hu id ig is it jv la lb lt lv mg "
        "mi ms mt nb nl nn no oc om pl pt ro sk sl so sq st su sv sw tl tn tr uz vi wo xh yo zu"
    ),
    ("CYRILLIC",): "be bg kk ky mk mn ru sr tg tt uk",
    ("GREEK",): "el",
    ("ARABIC",): "ar fa ps sd ug ur",
    ("HEBREW",): "he yi",
    ("DEVANAGARI",): "hi mr ne sa",
    ("BENGALI",): "as bn",
    ("GURMUKHI",): "pa",
    ("GUJARATI",): "gu",
    ("TAMIL",): "ta",
    ("TELUGU",): "te",
    ("KANNADA",): "kn",
    ("MALAYALAM",): "ml",
    ("SINHALA",): "si",
    ("THAI",): "th",
    ("LAO",): "lo",
    ("MYANMAR",): "my shn mnw rki blk",
    ("TIBETAN",): "bo dz",
    ("KHMER",): "km",
    ("ETHIOPIC",): "am ti",
    ("GEORGIAN",): "ka",
    ("ARMENIAN",): "hy",
    ("HANGUL",): "ko",
    HAN: "zh yue",
    (*HAN, "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA"): "ja",
}
ANY_SCRIPT = "COMBINING"  # accents that are no part of their letter
LANGUAGES = {language: names for names, languages in SYSTEMS.items() for language in languages.split()}


def knows(language: str) -> bool:
    """Return whether the letters of a language are known."""
    return main_language(language) in LANGUAGES


@cache
def letters() -> Marks:
    """Return which code points are letters, or marks that are written with them."""
    marks = np.zeros(sys.maxunicode + 1, dtype=bool)
    marks[[found.start() for found in LETTER.finditer("".join(map(chr, range(sys.maxunicode + 1))))]] = True
    return marks


@lru_cache(maxsize=16)
def letters_of(language: str) -> Marks:
    """Return which code points are letters of a language."""
    names = (*LANGUAGES[main_language(language)], ANY_SCRIPT)
    marks = np.zeros(sys.maxunicode + 1, dtype=bool)
    for code in np.flatnonzero(letters()).tolist():
        marks[code] = unicodedata.name(chr(code), "").startswith(names)
    return marks


@cache
def spaces() -> Marks:
    """Return which code points are white space."""
    marks = np.zeros(sys.maxunicode + 1, dtype=bool)
    marks[[code for code in range(0x3001) if chr(code).isspace()]] = True
    return marks
