"""German number words, clock times, dates and other expressions of time."""

from __future__ import annotations

from grammar.entries import Gender, Phrase
from grammar.meaning import Clock, Date, Span, Time, Weekday
from grammar.phrases import MONTHS, WEEKDAYS

_SMALL = (
    "null",
    "eins",
    "zwei",
    "drei",
    "vier",
    "fünf",
    "sechs",
    "sieben",
    "acht",
    "neun",
    "zehn",
    "elf",
    "zwölf",
    "dreizehn",
    "vierzehn",
    "fünfzehn",
    "sechzehn",
    "siebzehn",
    "achtzehn",
    "neunzehn",
    "split",
)
_TENS = ("zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig")
_IRREGULAR_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}


def number_word(number: int) -> str:
    """Spell a number from 0 to 999 as one word: 345 is dreihundertfünfundvierzig."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return _joining(hundreds) + "hundert" + (number_word(rest) if rest else "")
    if number < 20:
        return _SMALL[number]
    tens, ones = divmod(number, 10)
    return (_joining(ones) + "und" if ones else "") + _TENS[tens - 2]


def ordinal_stem(number: int) -> str:
    """Ordinal from 1 to 31 without its ending: 3 is dritt."""
    if number in _IRREGULAR_ORDINALS:
        return _IRREGULAR_ORDINALS[number]
    return number_word(number) + ("t" if number < 20 else "st")


def clock(time: Clock) -> str:
    """Say a time of day: 3:30 is 'um halb vier', 3:25 is 'um fünf vor halb vier'."""
    this_hour, next_hour = number_word(time.hour), number_word(time.hour % 12 + 1)
    if time.minute == 0:
        return f"um {_joining(time.hour)} Uhr"
    if time.minute in (15, 45):
        return f"um Viertel nach {this_hour}" if time.minute == 15 else f"um Viertel vor {next_hour}"
    if 20 < time.minute < 40:
        offset = {25: "fünf vor ", 30: "", 35: "fünf nach "}[time.minute]
        return f"um {offset}halb {next_hour}"
    if time.minute <= 20:
        return f"um {number_word(time.minute)} nach {this_hour}"
    return f"um {number_word(60 - time.minute)} vor {next_hour}"


def time_phrase(time: Time) -> str:
    """Say when: a fixed phrase, time of day, date, weekday or distance in time."""
    if isinstance(time, Phrase):
        return time.german
    if isinstance(time, Clock):
        return clock(time)
    if isinstance(time, Date):
        day = f"{ordinal_stem(time.day)}en" if time.spelled else f"{time.day}."
        return f"am {day} {MONTHS[time.month].german}"
    if isinstance(time, Weekday):
        word = "jeden" if time.every else ("am", "nächsten", "letzten")[time.shift]
        return f"{word} {WEEKDAYS[time.day].german}"
    return _span(time)


def _span(span: Span) -> str:
    """Both prepositions take the dative: vor einem Monat, in drei Tagen."""
    preposition = "vor" if span.ago else "in"
    if span.count == 1:
        article = "einer" if span.unit.gender is Gender.FEMININE else "einem"
        return f"{preposition} {article} {span.unit.german}"
    plural = span.unit.plural
    ending = "" if plural.endswith("n") else "n"
    return f"{preposition} {number_word(span.count)} {plural}{ending}"


def _joining(number: int) -> str:
    return "ein" if number == 1 else number_word(number)
