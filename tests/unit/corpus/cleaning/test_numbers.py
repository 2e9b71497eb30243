"""Numbers that are equal, and numbers that differ, in many ways of writing; each pair from both sides."""

from __future__ import annotations

import pytest

from deepnmt.corpus.cleaning.numbers import disagreeing_numbers

EQUAL = [
    ("بلغ ٣٫٥٠ مليون", "it was 3.50 million"),
    ("۱٬۵۰۰ نفر", "1,500 people"),
    ("价格１，５００元", "price 1,500"),
    ("1\u2009500 km", "1,500 km"),
    ("1\u00a0500", "1\u202f500"),
    ("am 3.12.2020", "on 12/3/2020"),
    ("1,2,3", "1, 2, 3"),
    ("um 14:30 Uhr", "at 14.30"),
    ("à 14h30", "at 14:30"),
    ("1,00,000 Rupien", "100,000 rupees"),
    ("१,२३,४५६", "123,456"),
    ("CHF 1’000.50", "CHF 1,000.50"),
    ("1'000", "1000"),
    ("2020-12-03", "3.12.2020"),
    ("3.12.20", "12/3/2020"),
    ("3.12.2020", "December 3, 2020"),
    ("2020年12月3日", "12/3/2020"),
    ("2½", "2.5"),
    ("2 1/2", "2½"),
    ("½", "0,5"),
    ("50 %", "50%"),
    ("Ludwig XIV.", "Louis 14"),
    ("三千五百", "3500"),
    ("一万二千", "12000"),
    ("二〇二〇年", "2020"),
    ("2万", "20,000"),
    ("1.5億", "150 000 000"),
    ("100 200 300", "100, 200, 300"),
    ("am 21. Mai", "May 21st"),
    ("5’30", "5:30"),
    ("1.2.3", "1.2.3"),
]
DIFFERENT = [
    ("3.5", "5.3", 1),
    ("3.50", "35.0", 2),
    ("1.500 Euro", "15,00 euros", 1),
    ("1.500", "1.5", 1),
    ("3.12.2020", "12/3/2021", 1),
    ("3.12.2020", "13.12.2020", 1),
    ("14:30", "14.45", 1),
    ("14.30", "15:30", 1),
    ("٣٫٥٠", "3.60", 1),
    ("۱٬۵۰۰", "1,600", 1),
    ("１，５００", "1,501", 1),
    ("1 500", "1 600", 1),
    ("2½", "2.25", 2),
    ("2万", "30,000", 1),
    ("1.5億", "15,000,000", 1),
    ("三千五百", "3600", 1),
    ("1,00,000", "10,000", 1),
    ("3.5", "35", 1),
    ("13 Hunde", "thirteen dogs", 1),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_numbers(one: str, other: str) -> None:
    assert disagreeing_numbers(one, other) == disagreeing_numbers(other, one) == 0


@pytest.mark.parametrize(("one", "other", "count"), DIFFERENT)
def test_different_numbers(one: str, other: str, count: int) -> None:
    assert disagreeing_numbers(one, other) == disagreeing_numbers(other, one) == count


def test_very_long_numbers() -> None:
    # Python refuses to read more than 4,300 digits as a number.
    assert disagreeing_numbers("1" * 5000, "1" * 5000 + " 20") == 1
    assert disagreeing_numbers("9" * 5000 + "½", "7") == 3
    assert disagreeing_numbers("1" * 5000 + "万", "20") == 1
    assert disagreeing_numbers("万" * 5000, "20") == 1
