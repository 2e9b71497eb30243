"""English number words, clock times, dates and other expressions of time."""

from __future__ import annotations

from grammar.entries import Phrase
from grammar.meaning import Clock, Date, Span, Time, Weekday
from grammar.phrases import MONTHS, WEEKDAYS

_SMALL = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "split",
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_IRREGULAR_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def number_word(number: int) -> str:
    """Spell a number from 0 to 999: 345 is 'three hundred and forty-five'."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return f"{_SMALL[hundreds]} hundred" + (f" and {number_word(rest)}" if rest else "")
    if number < 20:
        return _SMALL[number]
    tens, ones = divmod(number, 10)
    return _TENS[tens - 2] + (f"-{_SMALL[ones]}" if ones else "")


def ordinal(number: int) -> str:
    """Ordinal from 1 to 31: 21 is twenty-first."""
    head, hyphen, last = number_word(number).rpartition("-")
    if last.endswith("ty"):
        return f"{last[:-1]}ieth"
    return head + hyphen + _IRREGULAR_ORDINALS.get(last, f"{last}th")


def clock(time: Clock) -> str:
    """Say a time of day: 3:30 is 'at half past three'."""
    this_hour, next_hour = number_word(time.hour), number_word(time.hour % 12 + 1)
    if time.minute == 0:
        return f"at {this_hour} o'clock"
    if time.minute <= 30:
        return f"at {_minutes(time.minute)} past {this_hour}"
    return f"at {_minutes(60 - time.minute)} to {next_hour}"


def time_phrase(time: Time) -> str:
    """Say when: a fixed phrase, time of day, date, weekday or distance in time."""
    if isinstance(time, Phrase):
        return time.english
    if isinstance(time, Clock):
        return clock(time)
    if isinstance(time, Date):
        day = f"the {ordinal(time.day)} of" if time.spelled else str(time.day)
        return f"on {day} {MONTHS[time.month].english}"
    if isinstance(time, Weekday):
        word = "every" if time.every else ("on", "next", "last")[time.shift]
        return f"{word} {WEEKDAYS[time.day].english}"
    return _span(time)


def _span(span: Span) -> str:
    some = f"{number_word(span.count)} {span.unit.english_plural}"
    length = f"a {span.unit.english}" if span.count == 1 else some
    return f"{length} ago" if span.ago else f"in {length}"


def _minutes(minutes: int) -> str:
    return {15: "a quarter", 30: "half"}.get(minutes) or number_word(minutes)
