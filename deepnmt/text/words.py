"""Words of lines, and lines spread over a text.

A letter is a Unicode letter, or a mark that is written with one: vowel signs of Hindi, accents of their own. A word is
a run of letters, digits and underscores that does not begin with a mark. In scripts without spaces between words, each
code point is one.

`counted_words` alone decides the number and the boundaries of a line's words. Limits of lengths and ratios, selection
and statistics use it. BLEU uses `deepnmt.text.token_bleu`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

import regex

from deepnmt.text.languages import is_unspaced
from deepnmt.text.placeholders import TAGS
from deepnmt.text.units import ATTACHED, SPACED, unescaped

# Except marks that only choose between two shapes of a sign, such as an emoji.
MARK = r"[[\p{Mn}\p{Mc}]--\p{Variation_Selector}]"
LETTER = regex.compile(rf"(?V1)[\p{{L}}{MARK}]")
# The two last lengthen vowels in Japanese alone, but belong to no script.
_SCRIPTS = r"\p{Han}\p{Bopomofo}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}"
UNSPACED = rf"[{_SCRIPTS}\u30fc\uff70]"
_ALONE = rf"[[\p{{L}}\p{{N}}{MARK}]&&{UNSPACED}]"
_FIRST, _NEXT = rf"[[\p{{L}}\p{{N}}_]--{UNSPACED}]", rf"[[\p{{L}}\p{{N}}_{MARK}]--{UNSPACED}]"
_RUN = rf"{_FIRST}{_NEXT}*+"
# The separators are white space to Python alone.
_ANY = r"[^\s\x1c-\x1f]"
# In unspaced text: numbers whole, and several equal signs of punctuation in a row.
_NUMBERS = rf"{_RUN}(?:(?<=\d)[.,:/\uff0c\uff0e\uff1a\uff0f](?=\d){_RUN})*+"
SIGN = regex.compile(rf"(?V1){_NUMBERS}|{_ALONE}|([^\w\s\x1c-\x1f\ue000-\uf8ff])\1*+|{_ANY}")
WORD = regex.compile(rf"(?V1){_RUN}|{_ALONE}")
WORD_OR_SIGN = regex.compile(rf"(?V1){_RUN}|{_ANY}")
# Where a line has nothing of this, Python's own expressions find the same, in half of the time: marks and scripts
# without spaces, and others that lie between them.
RARE = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u1dff\u20d0-\u20f0\u2cef-\u2cf1\u2d7f\u2de0-\u2dff\u2e80-\uabff\uf900-\U0010ffff]"
)
PLAIN_WORD, PLAIN_WORD_OR_SIGN = re.compile(r"\w+"), re.compile(r"\w+|[^\w\s]")
# Symbols of a line of tokens that count as one character, of Unicode's private use.
SYMBOLS = {symbol: chr(0xE010 + number) for number, symbol in enumerate(["<unk>", *TAGS.values()])}
Words = list[str]
Item = TypeVar("Item")


def words_of(line: str, raw: bool) -> Words:
    """Return the words of a line; in raw text, not tokenised, words and signs are told apart, and case is ignored."""
    if not raw:
        return line.split()
    line = line.lower()
    return (WORD_OR_SIGN if RARE.search(line) else PLAIN_WORD_OR_SIGN).findall(line)


def counted_words(line: str, language: str, tokens: bool = False) -> Words:
    """Return the words of a line: parts between white space; words and signs where a language has no such spaces.

    Args:
        tokens: the line is tokenised, with marks for spaces, which are no words, and Moses' escapes such as `&quot;`;
            in raw text these are text
    """
    line = comparable(line, language) if tokens else line
    return signs_of(line) if is_unspaced(language) else line.split()


def number_of_words(line: str, language: str, tokens: bool = False) -> int:
    """Return the number of `counted_words` of a clean line."""
    if is_unspaced(language) or (tokens and (ATTACHED in line or SPACED in line)):
        return len(counted_words(line, language, tokens))
    return line.count(" ") + 1 if line else 0


def comparable(tokens: str, language: str) -> str:
    """Return a line of tokens without marks for spaces; as text where a language has no spaces between words.

    sacrebleu's tokenisations expect text for such a language.
    """
    if ATTACHED in tokens or SPACED in tokens:
        tokens = " ".join(token for token in tokens.split() if token not in (ATTACHED, SPACED))
    if not is_unspaced(language):
        return tokens
    for symbol, character in SYMBOLS.items():
        tokens = tokens.replace(symbol, character)
    return unescaped(tokens)


def words_alone(line: str) -> Words:
    """Return the words of a line that is not tokenised, without punctuation."""
    return (WORD if RARE.search(line) else PLAIN_WORD).findall(line)


def signs_of(line: str) -> Words:
    """Return the words and signs of a line of a language without spaces between words."""
    return [found[0] for found in SIGN.finditer(line)]


def spread(items: Iterable[Item], number: int, total: int) -> Iterator[Item]:
    """Yield `number` of the `total` items, evenly spread over them; all if there are fewer."""
    wanted = min(number, total)
    for place, item in enumerate(items):
        if (place + 1) * wanted // total > place * wanted // total:
            yield item
