"""Alignments as text and as links, and joined from both directions: grow-diag-final (Koehn 2003, N03-1017; Moses).

Text is in the format of Pharaoh: a pair per line, `0-0 1-2`, source words first, from 0.

Joining starts from the links that both directions have. A link of either direction that touches a link taken so far,
also diagonally, is taken if one of its words has no link yet. Finally, links with such a word are taken wherever they
are, first of the forward direction, then of the reverse one.
"""

import re
from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heappush

from deepnmt.errors import UserError

# A link: the source word's place in its sentence, and the target word's, from 0.
Link = tuple[int, int]
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final(forward: Collection[Link], reverse: Collection[Link]) -> list[Link]:
    """Return the joined links in rising order; each direction may have one link for each of its words, or any links."""
    one, other = set(forward), set(reverse)
    taken = one & other
    left = one ^ other
    sources, targets = {i for i, _ in taken}, {j for _, j in taken}
    # The pair is read by target words, then source words, again and again: a link taken behind the place that is being
    # read has its neighbours looked at in the next reading.
    reading = [(j, i) for i, j in taken]
    while reading and left:
        heapify(reading)
        later: list[Link] = []
        while reading and left:
            j, i = heappop(reading)
            for down, right in NEIGHBOURS:
                near, far = link = (i + down, j + right)
                if link in left and (near not in sources or far not in targets):
                    left.remove(link)
                    taken.add(link)
                    sources.add(near)
                    targets.add(far)
                    if (far, near) > (j, i):
                        heappush(reading, (far, near))
                    else:
                        later.append((far, near))
        reading = later
    for direction in (one, other):
        for j, i in sorted((j, i) for i, j in direction & left):
            if i not in sources or j not in targets:
                taken.add((i, j))
                sources.add(i)
                targets.add(j)
    return sorted(taken)


LINK = re.compile("([0-9]{1,9})-([0-9]{1,9})")


def line_of(links: Iterable[Link]) -> str:
    """Return the line of a pair."""
    return " ".join(f"{i}-{j}" for i, j in links)


def parse_line(line: str, source: int, target: int, place: str) -> list[Link]:
    """Return the links of a line; messages name its `place`, file and line.

    Raises `UserError` if a link is malformed or points outside the sentence of `source` or `target` words.
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
