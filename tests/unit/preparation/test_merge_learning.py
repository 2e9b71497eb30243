"""Merges are subword-nmt's, also where it counts oddly, and for several texts as for one."""

from __future__ import annotations

import io
import random
from collections import Counter
from itertools import islice

import numpy as np
import pytest
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

from deepnmt.preparation import merge_learning
from deepnmt.preparation.cut_text import Pieces, learnt_pieces
from deepnmt.preparation.merge_learning import learn_pairs

Merges = list[tuple[str, ...]]


def learnt(texts: list[list[str]], merges: int) -> Merges:
    counts = [Counter(word for line in lines for word in line.split()) for lines in texts]
    words = [("".join(f"{word}\n" for word in each), np.array([*each.values()], np.int64)) for each in counts]
    return list(learn_pairs(words, merges))


def by_subword_nmt(texts: list[list[str]], merges: int) -> Merges:
    codes = io.StringIO()
    try:
        learn_bpe(io.StringIO("\n".join(line for lines in texts for line in lines)), codes, merges)
    except ValueError:
        return []
    return [tuple(line.split(" ")) for line in codes.getvalue().split("\n")[1:-1]]


def text(seed: int) -> tuple[list[list[str]], int]:
    """Two texts of words of few letters, so that pairs overlap, and several merges make the same symbol."""
    draw = random.Random(seed)
    letters = draw.choice(["ab", "aab", "abc", "abcd", "aä中@'", "abcdefgh"])
    words = ["".join(draw.choices(letters, k=draw.randint(1, 12))) for _ in range(draw.choice([3, 30, 200]))]
    lines = draw.choice([2, 20, 100])
    return [[" ".join(draw.choices(words, k=8)) for _ in range(lines)] for _ in range(2)], draw.choice([5, 50, 400])


@pytest.mark.parametrize("part", range(4))
def test_merges_are_those_of_subword_nmt(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Words go over the ends of slices.
    monkeypatch.setattr(merge_learning, "SLICE", 50)
    # Of many pairs each, or of one.
    monkeypatch.setattr(merge_learning, "BUCKETS", [1, 3, 1 << 8, 1 << 20][part])
    for seed in range(40 * part, 40 * part + 40):
        texts, merges = text(seed)
        expected = by_subword_nmt(texts, merges)
        assert learnt(texts, merges) == expected, seed
        assert len({"".join(pair) for pair in expected}) == len(expected)


def test_words_that_read_as_ends_of_words_are_counted_as_by_subword_nmt() -> None:
    texts = [["</w></w>></w></w>></w> </w><</w></w></w>a<</w>"] * 3, ["ab </w></w></w></w>"] * 2]
    expected = by_subword_nmt(texts, 40)
    assert learnt(texts, 40) == expected
    # Two merges make the same symbol.
    assert len({"".join(pair) for pair in expected}) < len(expected)


def test_of_equally_frequent_pairs_the_greatest_is_merged() -> None:
    assert learnt([["ab ab cd cd"]], 2) == [("c", "d</w>"), ("a", "b</w>")]
    # The longer of two strings with the same beginning.
    assert learnt([["xy xy aaxy aaxy aab aab"]], 1) == [("x", "y</w>")]
    assert learnt([["za z\U0001f642 za z\U0001f642"]], 1) == [("z", "\U0001f642</w>")]


def test_text_without_pairs() -> None:
    assert learnt([["a b c"], ["d"]], 5) == by_subword_nmt([["a b c"], ["d"]], 5) == []
    assert learnt([["ab"]], 5) == []


def cut_by_learning(words: list[list[str]], merges: int) -> tuple[Merges, list[list[list[str]]]]:
    """The merges, and the pieces of each word of each text."""
    cuts: list[Pieces] = []
    counted = [("".join(f"{word}\n" for word in each), np.ones(len(each), np.int64)) for each in words]
    made = list(learn_pairs(counted, merges, lambda *cut: cuts.extend(learnt_pieces(list(map(len, words)), *cut))))
    found = []
    for cut in cuts:
        names = iter(cut.names[number] for number in cut.numbers.values.tolist())
        lines = [list(islice(names, length)) for length in cut.numbers.lengths.tolist()]
        assert lines.pop(0) == ["\n"]
        assert sorted(cut.names) == sorted({"\n", *(name for line in lines for name in line)})
        found.append(lines)
    return made, found


def spelt_where_ambiguous(pieces: list[str]) -> list[str]:
    *parts, last = pieces
    return [*parts, *("@@ ".join(last).split(" ") if last.endswith("@@") else [last])]


def test_words_are_cut_as_by_their_codes() -> None:
    for seed in range(60):
        texts, merges = text(seed)
        words = [list(dict.fromkeys(" ".join(lines).split())) for lines in texts]
        made, cut = cut_by_learning(words, merges)
        bpe = BPE(io.StringIO("\n".join(["#version: 0.2", *map(" ".join, made)])))
        assert cut == [[spelt_where_ambiguous(bpe.segment(word).split(" ")) for word in each] for each in words]


def test_words_that_read_as_parts_are_spelt_at_their_end() -> None:
    _, cut = cut_by_learning([["ab@@", "@@", "<s>", "ab"], ["<s>"]], 20)
    assert cut == [[["a@@", "b@@", "@@@", "@"], ["@@@", "@"], ["<@@", "s@@", ">"], ["a@@", "b"]], [["<@@", "s@@", ">"]]]


def test_merges_come_one_by_one() -> None:
    words = [("abc\nab\n", np.array([3, 2], np.int64))]
    assert list(islice(learn_pairs(words, 10), 1)) == [("b", "c</w>")]


def test_many_rare_pairs_may_share_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_learning, "BUCKETS", 1)
    # Together they are 150 times as frequent as the most frequent one.
    texts = [[f"{chr(first)}{chr(second)}" for first in range(97, 107) for second in range(97, 112)] * 2]
    assert learnt(texts, 20) == by_subword_nmt(texts, 20) != []
