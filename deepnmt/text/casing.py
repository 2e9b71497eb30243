"""Lower case and capitals by the rules of a language, where Unicode's general rules (chapter 3.13) do not apply.

Turkish, Azeri and others    I - ı and İ - i are two letters (SpecialCasing.txt).
Lithuanian                   Í - i̇́: the dot stays under an accent (SpecialCasing.txt).
Irish                        nAthair - n-athair: the letter before the capital is a prefix.
Dutch, Frisian               ijs - IJs.
Greek                        a final Σ is ς, which Python's own lower case knows.
"""

import re

from deepnmt.text.languages import main_language

TURKIC = frozenset(("tr", "tur", "az", "aze", "azj", "crh", "gag", "kaa", "zza", "diq", "kiu"))
# The ones of these written in Latin letters.
TURKIC_IN_LATIN = frozenset(("kk", "kaz", "tt", "tat", "ba", "bak"))
LITHUANIAN, IRISH = frozenset(("lt", "lit")), frozenset(("ga", "gle"))
DIGRAPH_IJ = frozenset(("nl", "nld", "dut", "fy", "fry", "li", "lim", "vls", "zea"))
# A capital of Lithuanian with an accent above it, and its lower case.
ACCENTED_I = re.compile("([IJ\u012e])(?=[\u0300\u0301\u0303])")
DOTTED = {"\u00cc": "i\u0307\u0300", "\u00cd": "i\u0307\u0301", "\u0128": "i\u0307\u0303"}
SOFT_DOT = re.compile("(?<=^[ij\u012f])\u0307")
IRISH_PREFIX = re.compile(r"(?<!\w)([nt])(?=[AEIOU\u00c1\u00c9\u00cd\u00d3\u00da])")
# Text before the first letter of a word: escaped and other signs, and letters that only modify (ʻokina).
BEFORE_LETTER = re.compile(r"(?:&(?:[a-z]+|#\d+);|[^\w&]|[_\u02b0-\u02ff])*")
ADDRESS = re.compile(r"\w://|^www\.|\w@\w")


class Casing:
    """The rules of a language such as tr or kk-Latn; empty: the general rules."""

    def __init__(self, language: str = "") -> None:
        name = main_language(language)
        latin = "latn" in re.split("[-_]", language.lower())
        self.turkic = name in TURKIC or (latin and name in TURKIC_IN_LATIN)
        self.lithuanian, self.irish, self.ij = name in LITHUANIAN, name in IRISH, name in DIGRAPH_IJ

    def lower(self, text: str) -> str:
        """Return text in lower case."""
        if self.turkic:
            text = text.replace("I\u0307", "i").replace("\u0130", "i").replace("I", "\u0131")
        elif self.lithuanian:
            text = ACCENTED_I.sub("\\1\u0307", text)
            text = "".join(DOTTED.get(sign, sign) for sign in text)
        elif self.irish:
            text = IRISH_PREFIX.sub(r"\1-", text)
        return text.lower()

    def capitalised(self, word: str) -> str:
        """Return a word with a capital: the first letter, unless another one shows that the word has a form of its own.

        These are words such as iPhone, and addresses; a digit in the place of the first letter leaves the word, too.
        """
        start = BEFORE_LETTER.match(word)
        begin = start.end() if start else 0
        first, rest = word[begin : begin + 1], word[begin + 1 :]
        if not first.isalpha() or rest[:1].isupper() or ADDRESS.search(word):
            return word
        if self.turkic and first == "i":
            first, rest = "\u0130", rest.removeprefix("\u0307")
        elif self.lithuanian:
            rest = SOFT_DOT.sub("", first + rest)[1:]
        elif self.ij and first in "i\u00ed" and rest[:1] == "j":
            rest = "J" + rest[1:]
        elif self.irish and first in "nt" and rest[:1] == "-":
            return word[:begin] + first + rest[1:2].title() + rest[2:]
        return word[:begin] + first.title() + rest
