"""Joined alignments, against the published pseudo-code and by hand; and links, against plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest

from deepnmt.corpus.alignment.grow_diag import grow_diag_final, line_of, parse_line
from deepnmt.corpus.alignment.links import Links
from deepnmt.errors import UserError

Link = tuple[int, int]
NEIGHBOURS = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]


def pseudo_code(forward: set[Link], reverse: set[Link], m: int, n: int) -> set[Link]:
    """GROW-DIAG-FINAL of the Moses manual, the scan over a matrix."""
    alignment, union = forward & reverse, forward | reverse

    def source_aligned(i: int) -> bool:
        return any(link[0] == i for link in alignment)

    def target_aligned(j: int) -> bool:
        return any(link[1] == j for link in alignment)

    added = True
    while added:
        added = False
        for j in range(n):
            for i in range(m):
                if (i, j) not in alignment:
                    continue
                for di, dj in NEIGHBOURS:
                    new = (i + di, j + dj)
                    if not (source_aligned(new[0]) and target_aligned(new[1])) and new in union - alignment:
                        alignment.add(new)
                        added = True
    for direction in (forward, reverse):
        for j in range(n):
            for i in range(m):
                if not (source_aligned(i) and target_aligned(j)) and (i, j) in direction:
                    alignment.add((i, j))
    return alignment


def test_it_is_the_published_procedure() -> None:
    draw = random.Random(3)
    for number in range(400):
        m, n = draw.randint(1, 7), draw.randint(1, 7)
        forward = {(draw.randrange(m), j) for j in range(n) if draw.random() < 0.8}
        reverse = {(i, draw.randrange(n)) for i in range(m) if draw.random() < 0.8}
        if number % 2:
            # Alignments from elsewhere may have several links for a word.
            forward, reverse = ({(i, j) for i in range(m) for j in range(n) if draw.random() < 0.3} for _ in range(2))
        assert set(grow_diag_final(forward, reverse)) == pseudo_code(forward, reverse, m, n)


def test_an_alignment_made_by_hand() -> None:
    # das will ich nicht / I do not want that
    forward = [(2, 0), (3, 1), (3, 2), (1, 3), (0, 4)]
    reverse = [(0, 4), (1, 3), (2, 0), (3, 2)]
    assert grow_diag_final(forward, reverse) == [(0, 4), (1, 3), (2, 0), (3, 1), (3, 2)]
    assert grow_diag_final([(0, 0)], [(3, 3)]) == [(0, 0), (3, 3)]


def test_lines_of_links() -> None:
    assert line_of([(0, 0), (1, 12)]) == "0-0 1-12"
    assert parse_line("0-0 1-12\n", 2, 13, "a:1") == [(0, 0), (1, 12)]
    with pytest.raises(UserError, match=r"^a:3: must link 2 source and 12 target words, but has 1-12$"):
        parse_line("0-0 1-12", 2, 12, "a:3")
    with pytest.raises(UserError, match=r"^a:1: a link must be two places from 0 such as 3-4, but is '1:2'$"):
        parse_line("1:2", 3, 3, "a:1")


def test_links_are_all_pairs_of_words() -> None:
    draw = np.random.default_rng(5)
    pairs = [
        (
            draw.integers(0, 9, draw.integers(1, 5)).astype(np.int32),
            draw.integers(0, 7, draw.integers(1, 5)).astype(np.int32),
        )
        for _ in range(40)
    ]
    links = Links.of(pairs, stride=7)
    assert links.keys.tolist() == sorted(
        {7 * int(x) + int(y) for source, target in pairs for x in source for y in target}
    )
    seen = []
    for group in links.groups():
        keys = links.keys[links.inverse[group.links]].reshape(group.shape)
        for row, number in enumerate(group.pairs.tolist()):
            source, target = pairs[number]
            seen.append(number)
            np.testing.assert_array_equal(group.source[row], source)
            np.testing.assert_array_equal(group.target[row], target)
            np.testing.assert_array_equal(keys[row], [[7 * x + y for x in source] for y in target])
    assert sorted(seen) == list(range(40))
