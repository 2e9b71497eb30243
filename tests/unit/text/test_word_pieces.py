"""Word pieces against the gain of each pair, counted anew in every step."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest
from support.cut_data import random_words

from deepnmt.text.word_pieces import learn_word_pieces


def by_brute_force(words: dict[str, int], merges: int, least: int) -> list[tuple[str, str]]:
    cuts = {word: [*word[:-1], word[-1] + "</w>"] for word in words}
    made: list[tuple[str, str]] = []
    while len(made) < merges:
        singles, pairs = Counter[str](), Counter[tuple[str, str]]()
        for word, cut in cuts.items():
            for symbol in cut:
                singles[symbol] += words[word]
            for pair in zip(cut, cut[1:]):
                pairs[pair] += words[word]
        total = sum(singles.values())
        # exp of log P(ab) - log P(a) - log P(b), exactly
        gains = {
            pair: Fraction(count, total) / (Fraction(singles[pair[0]], total) * Fraction(singles[pair[1]], total))
            for pair, count in pairs.items()
            if count >= least
        }
        if not gains:
            break
        best = max(gains.values())
        made.append(min((pair for pair in gains if gains[pair] == best), key=lambda pair: (-pairs[pair], pair)))
        for cut in cuts.values():
            place = 0
            while place < len(cut) - 1:
                if (cut[place], cut[place + 1]) == made[-1]:
                    cut[place : place + 2] = [cut[place] + cut[place + 1]]
                place += 1
    return made


@pytest.mark.parametrize(("least", "merges"), [(1, 200), (5, 30), (8, 200)])
def test_ten_words(least: int, merges: int) -> None:
    draw = random.Random(least)
    words = {word: draw.randint(1, 9) for word in [*random_words(draw, 8), "banana", "aaaa"]}
    expected = by_brute_force(words, merges, least)
    assert len(expected) > 3
    assert learn_word_pieces(words, merges, least) == expected


def test_more_pairs_than_the_first_arrays_hold() -> None:
    words = {f"{chr(0x4E00 + 2 * n)}{chr(0x4E01 + 2 * n)}": 1 for n in range(1500)}
    assert len(learn_word_pieces(words, 1500, 1)) == 1500
    assert learn_word_pieces(words, 10, 2) == []
