"""Which letters a language is written with, by the names that Unicode gives them."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

from deepnmt.cleaning.pair_chunk import main_language

LETTERS = re.compile(r"[^\W\d_]+")
HAN = ("CJK UNIFIED IDEOGRAPH", "CJK COMPATIBILITY IDEOGRAPH", "BOPOMOFO")
# Languages by the beginnings of their letters' names.
SYSTEMS = {
    ("LATIN", "FULLWIDTH LATIN"): (
        "af az br bs ca ceb cs cy da de en eo es et eu fi fo fr fy ga gd gl ha hr ht hu id ig is it jv la lb lt lv mg "
        "mi ms mt nb nl nn no oc pl pt ro sk sl so sq st su sv sw tl tn tr uz vi wo xh yo zu"
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
    ("MYANMAR",): "my",
    ("KHMER",): "km",
    ("ETHIOPIC",): "am ti",
    ("GEORGIAN",): "ka",
    ("ARMENIAN",): "hy",
    ("HANGUL",): "ko",
    HAN: "zh yue",
    (*HAN, "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA"): "ja",
}
LANGUAGES = {language: names for names, languages in SYSTEMS.items() for language in languages.split()}


def knows(language: str) -> bool:
    """Return whether the letters of a language are known."""
    return main_language(language) in LANGUAGES


@cache
def letters_of(language: str) -> re.Pattern[str]:
    """Return a pattern of runs of a language's letters."""
    names = LANGUAGES[main_language(language)]
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        if sign.isalpha() and unicodedata.name(sign, "").startswith(names):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return re.compile("[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges) + "]+")


def share_of_letters(line: str) -> float:
    """Return the share of letters among the signs that are no white space; 1 where there are none."""
    signs = len("".join(line.split()))
    return sum(map(len, LETTERS.findall(line))) / signs if signs else 1.0


def share_of_own_letters(line: str, own: re.Pattern[str]) -> float:
    """Return the share of a language's letters among all letters; 1 where there are none."""
    letters = sum(map(len, LETTERS.findall(line)))
    return sum(map(len, own.findall(line))) / letters if letters else 1.0
