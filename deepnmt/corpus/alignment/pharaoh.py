"""Alignments as text, in the format of Pharaoh: a pair a line, `0-0 1-2`, source words first, from 0."""

import re
from collections.abc import Iterable

from deepnmt.corpus.alignment.grow_diag import Link
from deepnmt.errors import UserError

LINK = re.compile("([0-9]{1,9})-([0-9]{1,9})")


def line_of(links: Iterable[Link]) -> str:
    """Return the line of a pair."""
    return " ".join(f"{i}-{j}" for i, j in links)


def parse_line(line: str, source: int, target: int, place: str) -> list[Link]:
    """Return the links of a line.

    Args:
        line: of a file
        source: words of the source
        target: words of the target
        place: file and line, for messages

    Raises:
        UserError: a link is none, or is of a word that the pair does not have
    """
    links = []
    for text in line.split():
        match = LINK.fullmatch(text)
        if match is None:
            raise UserError(f"{place}: a link must be two places from 0 such as 3-4, but is '{text[:40]}'")
        i, j = int(match[1]), int(match[2])
        if i >= source or j >= target:
            raise UserError(f"{place}: must link {source} source and {target} target words, but has {text}")
        links.append((i, j))
    return links
