"""Interpolation (31): the candidate of the greatest BLEU+1, computed here from its definition."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from deepnmt.synthetic.pair_making import closest, similarity

REFERENCE = "the cat sat on the mat today"
CANDIDATES = [
    "a dog ran", "the cat", "the cat sat on a mat", "the cat sat on the mat", "today the cat sat on the mat", "the",
    "the the the the the the the", "the cat sat on the mat today and then it slept", REFERENCE,
]  # fmt: skip


def bleu_plus_one(candidate: str, reference: str) -> float:
    words, wanted = candidate.split(), reference.split()
    total = 0.0
    for n in range(1, 5):
        mine = Counter(zip(*(words[i:] for i in range(n))))
        theirs = Counter(zip(*(wanted[i:] for i in range(n))))
        matches = sum(min(count, theirs[gram]) for gram, count in mine.items())
        more = 0 if n == 1 else 1
        if matches + more == 0:
            return 0.0
        total += math.log((matches + more) / (sum(mine.values()) + more)) / 4
    return 100 * math.exp(total) * min(1.0, math.exp(1 - len(wanted) / len(words)))


@pytest.mark.parametrize("candidate", CANDIDATES)
def test_similarity_is_bleu_plus_one(candidate: str) -> None:
    assert similarity(candidate, REFERENCE, "en") == pytest.approx(bleu_plus_one(candidate, REFERENCE), abs=1e-9)


def test_the_closest_is_chosen_and_of_equals_the_first() -> None:
    for three in itertools.permutations(CANDIDATES[:-1], 3):
        assert closest(three, REFERENCE, "en") == max(three, key=lambda each: bleu_plus_one(each, REFERENCE))
    assert closest(["a b", "c d"], "e f", "en") == "a b"


def test_characters_of_chinese_are_compared() -> None:
    # Both are one token, and no token of the reference.
    assert closest(["昨天学生看电影。", "今天老师看书。"], "今天老师看书了。", "zh") == "今天老师看书。"
    assert similarity("ไทยก", "ไทยข", "th") == pytest.approx(bleu_plus_one("ไ ท ย ก", "ไ ท ย ข"), abs=1e-9)
