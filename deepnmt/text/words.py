"""Words of lines, and lines spread over a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")
Words = list[str]
Item = TypeVar("Item")


def words_of(line: str, raw: bool) -> Words:
    """Return the words of a line.

    Args:
        line: of a text
        raw: the text is not tokenised: words and signs are told apart here, and case is ignored
    """
    return WORD_OR_SIGN.findall(line.lower()) if raw else line.split()


def spread(items: Iterable[Item], number: int, total: int) -> Iterator[Item]:
    """Yield `number` of the `total` items, evenly spread over them; all if there are fewer."""
    wanted = min(number, total)
    for place, item in enumerate(items):
        if (place + 1) * wanted // total > place * wanted // total:
            yield item
