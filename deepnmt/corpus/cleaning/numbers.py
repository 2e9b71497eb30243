"""The numbers of a line, and the count of numbers in two lines without a partner in the other.

Languages write a number in many ways: with their own digits, or with points, commas, spaces or apostrophes between
groups or before a fraction. Dates have either order, times a colon or a point. Numbers with the same value are equal. A
date, a time or a list that is written as one number on one side alone is compared part by part.

    | written                       | value  | parts                                                    |
    | ----------------------------- | ------ | -------------------------------------------------------- |
    | 1.500  1,500  1 500  1'500    | 1500   | parts at a comma or space, if the other side has all     |
    | 1,00,000 (lakh)  10.000,50    | 100000, 10000.5 |                                                 |
    | 3.50  3,5                     | 3.5    | as above; both parts of a time such as 14.30             |
    | 3.12.2020  1,2,3  1.2.3       |        | each of them; a date's year also without its century     |
    | ½  2½                         | 0.5, 2.5 | whole, numerator, denominator                          |
    | 2万  1.5億                    | 2, 20000; 1.5, 150000000 |                                        |
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

SPACES = "\u00a0\u2007\u2009\u202f "
COMMAS = ",\u060c\uff0c"  # and the Arabic and full-width ones
POINTS = ".\uff0e"
DECIMAL, GROUP = "\u066b", "\u066c"  # the Arabic ones, which are nothing else
APOSTROPHES = "'\u2019\u02bc"
FRACTIONS = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
MULTIPLES = {"万": 4, "萬": 4, "亿": 8, "億": 8}
# White space stands between groups of three digits alone: `May 5 2019` has two numbers.
NUMBER = re.compile(
    rf"\d*[{FRACTIONS}]|(?:\d{{1,3}}(?:[{SPACES}]\d{{3}})+(?!\d)(?:[{COMMAS}{POINTS}{DECIMAL}]\d+)*"
    rf"|\d+(?:[{COMMAS}{POINTS}{DECIMAL}{GROUP}{APOSTROPHES}]\d+)*)[{''.join(MULTIPLES)}]?"
)
HAS_NUMBER = re.compile(rf"[\d{FRACTIONS}]")
PARTS = re.compile(r"(\d+)")
# Groups of three digits, or of two before the last one.
GROUPS = re.compile(r"[1-9]\d{0,2}(?: \d{3})+|[1-9]\d?(?: \d{2})+ \d{3}")
DATE = re.compile(r"\d{1,2} \d{1,2} \d{2}")
TIME = re.compile(r"(?:[01]?\d|2[0-4]) [0-5]\d")
ROMAN = re.compile(r"\b(?=[IVXLCDM]{2})M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})\b")
ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
LONGEST = 20  # of a numeral
CHINESE = re.compile("[〇零一二三四五六七八九十百千万萬亿億两兩]+")
CHINESE_DIGITS = {
    sign: digit for digit, signs in enumerate(("〇零", "一", "二两兩", *"三四五六七八九")) for sign in signs
}
CHINESE_UNITS = {"十": 10, "百": 100, "千": 1000}
# Smaller ones are often written as words.
SPELT = 12


@dataclass(frozen=True)
class Number:
    """A number as written.

    Attributes:
        values: possible values; the first is the value without a further sign
        parts: its parts if it is no single number; empty: it is a single number
        whole: its parts count only if the other side has all of them
    """

    values: tuple[str, ...]
    parts: tuple[str, ...] = ()
    whole: bool = False


def disagreeing_numbers(source: str, target: str) -> int:
    """Return how many numbers of either line have no partner; those up to 12 may be words in the other line."""
    if not (HAS_NUMBER.search(source) or HAS_NUMBER.search(target)):
        return 0
    first, second = NUMBER.findall(source), NUMBER.findall(target)
    if sorted(first) == sorted(second):
        return 0
    alone, others = _unmatched([_number(text) for text in first], [_number(text) for text in second])
    # Numerals in letters may be words: they are partners, and never lack one.
    alone -= Counter(_numerals(target)) if alone else Counter()
    others -= Counter(_numerals(source)) if others else Counter()
    if alone and others:
        return max(alone.total(), others.total())
    return sum(1 for number in (alone + others).elements() if not number.isdigit() or _is_large(number))


def _is_large(number: str) -> bool:
    return len(number) > 2 or int(number) > SPELT


def _number(text: str) -> Number:
    if not text.isascii():
        text = "".join(str(unicodedata.decimal(sign, sign)) for sign in text)
    if text[-1] in FRACTIONS:
        top, _, bottom = unicodedata.normalize("NFKC", text[-1]).partition("\u2044")
        fraction = f"{int(top) / int(bottom):.6f}".partition(".")[2]
        parts = tuple(part for part in (text[:-1], top, bottom) if part)
        return Number((_with_fraction(_plain(text[:-1]), fraction),), parts)
    multiple = MULTIPLES.get(text[-1], 0)
    pieces = PARTS.split(text[:-1] if multiple else text)
    digits, separators = pieces[1::2], pieces[2:-1:2]
    number = _written(digits, separators)
    if not multiple or len(number.values[0]) > 1000:
        return number
    return Number((*number.values, _shifted(number.values[0], multiple)), number.parts, number.whole)


def _written(digits: list[str], separators: list[str]) -> Number:
    """Return the number that parts with separators between them are."""
    if not separators:
        return Number((_plain(digits[0]),))
    parts = tuple(map(_plain, digits))
    joined, last = " ".join(digits), separators[-1]
    # Grouped, then perhaps a fraction after another sign than the groups'.
    if (
        last not in separators[:-1]
        and last not in GROUP + APOSTROPHES + SPACES
        and (len(separators) == 1 or GROUPS.fullmatch(" ".join(digits[:-1])))
    ):
        grouped = len(separators) == 1 and last != DECIMAL and GROUPS.fullmatch(joined)
        if not grouped:
            value = _with_fraction(_plain("".join(digits[:-1])), digits[-1])
            if last in POINTS and TIME.fullmatch(joined):
                return Number((value,), parts)
            return Number((value,), parts if last in COMMAS and len(digits) == 2 else (), whole=True)
    if len(set(separators)) == 1 and GROUPS.fullmatch(joined):
        return Number((_plain("".join(digits)),), parts if last in COMMAS + SPACES else (), whole=True)
    return Number(("/".join(parts),), parts)


def _plain(digits: str) -> str:
    return digits.lstrip("0") or "0"


def _with_fraction(whole: str, fraction: str) -> str:
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def _shifted(value: str, places: int) -> str:
    whole, _, fraction = value.partition(".")
    fraction = fraction.ljust(places, "0")
    return _with_fraction(_plain(whole + fraction[:places]), fraction[places:])


def _unmatched(first: list[Number], second: list[Number]) -> tuple[Counter[str], Counter[str]]:
    """Return the numbers of both sides, or their parts, that have no partner."""
    places: dict[str, list[int]] = {}
    for place, number in enumerate(second):
        for value in number.values:
            places.setdefault(value, []).append(place)
    taken, left = set[int](), list[Number]()
    for number in first:
        found = next((free for value in number.values if (free := _free(places.get(value), taken)) is not None), None)
        if found is None:
            left.append(number)
        else:
            taken.add(found)
    right = [number for place, number in enumerate(second) if place not in taken]
    one, other = Counter(_parts(left, right)), Counter(_parts(right, left))
    return one - other, other - one


def _free(places: list[int] | None, taken: set[int]) -> int | None:
    """Return the next place that is not taken, and forget those before it."""
    while places:
        if (place := places.pop()) not in taken:
            return place
    return None


def _parts(numbers: list[Number], others: list[Number]) -> Iterator[str]:
    """Yield the parts of numbers, or the values of numbers that are single for the other side."""
    there = Counter(part for number in others for part in number.parts or number.values[:1])
    for number in numbers:
        if not number.parts or (number.whole and Counter(number.parts) - there):
            yield number.values[0]
            continue
        *parts, last = number.parts
        if DATE.fullmatch(" ".join(number.parts)) and last not in there:
            last = next((century + last.zfill(2) for century in ("20", "19") if century + last.zfill(2) in there), last)
        yield from (*parts, last)


def _numerals(line: str) -> Iterator[str]:
    """Yield the values of Roman and Chinese numerals."""
    for found in ROMAN.findall(line):
        values = [ROMAN_DIGITS[letter] for letter in found]
        yield str(sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0])))
    for found in CHINESE.findall(line):
        if len(found) <= LONGEST:
            yield str(_chinese(found))


def _chinese(text: str) -> int:
    if not any(sign in CHINESE_UNITS or sign in MULTIPLES for sign in text):
        return int("".join(str(CHINESE_DIGITS[sign]) for sign in text))
    total = section = digit = 0
    for sign in text:
        if sign in CHINESE_DIGITS:
            digit = CHINESE_DIGITS[sign]
        elif sign in CHINESE_UNITS:
            section += (digit or 1) * CHINESE_UNITS[sign]
            digit = 0
        else:
            total = (total + section + digit or 1) * 10 ** MULTIPLES[sign]
            section = digit = 0
    return total + section + digit
