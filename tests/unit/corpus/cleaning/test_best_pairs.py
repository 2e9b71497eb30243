"""The best pairs, and those that are kept for their words."""

from __future__ import annotations

import numpy as np
import pytest

from deepnmt.corpus.cleaning.decisions import Best, needed, ranked
from deepnmt.errors import UserError


@pytest.mark.parametrize(
    ("text", "pairs", "kept"), [("0.5", 9, 4), ("0.001", 9, 1), ("1.0", 9, 9), ("3", 9, 3), ("30", 9, 9)]
)
def test_numbers_and_shares(text: str, pairs: int, kept: int) -> None:
    Best(text).check()
    assert Best(text).of(pairs) == kept


@pytest.mark.parametrize("text", ["0", "-1", "0.0", "1.5", "half", "nan", ""])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(
        UserError, match=f"--keep-best must be a number of pairs, or a share such as 0.9, but is '{text}'"
    ):
        Best(text).check()


def test_of_equal_scores_the_first_are_better() -> None:
    scores = np.array([1, 3, 2, 3, 1, 2], np.float32)
    assert ranked(scores).tolist() == [1, 3, 2, 5, 0, 4]


def test_no_number_ranks_last() -> None:
    scores = np.array([np.nan, 1, -np.inf, np.nan, 2], np.float32)
    assert ranked(scores).tolist() == [4, 1, 2, 0, 3]


def test_the_best_pairs_with_rare_words_stay() -> None:
    from collections import Counter

    counts = Counter({(0, "a"): 1, (1, "b"): 2})
    rare = [[(0, "a"), (1, "c")], [(1, "c")], [(0, "a")], []]
    assert needed(counts, rare, [2, 1, 0, 3], 2) == [2, 1, 0]
    assert counts[1, "c"] == 2
    assert needed(Counter({(0, "a"): 1}), rare, [2, 0], 2) == [2, 0]
    assert needed(Counter({(0, "a"): 1}), [[(0, "a")], [(0, "a")]], [0, 1], 2) == [0]
