"""BPE-dropout against the algorithm of the paper, all of whose outcomes are enumerated here."""

from __future__ import annotations

import io
import random
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare, kstest
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from support.cut_data import random_words

from deepnmt.data.cut_walks import MISSING
from deepnmt.data.merge_walks import MergeWalks, read_merges
from deepnmt.data.recut_text import LineDraws
from deepnmt.errors import UserError

Merges = dict[tuple[str, str], int]


def outcomes(cut: tuple[str, ...], ranks: Merges, rate: float) -> dict[tuple[str, ...], float]:
    """The probability of each way to cut a word: every set of merges that can be left out, in every step."""
    merges = [(ranks[pair], place) for place, pair in enumerate(zip(cut, cut[1:])) if pair in ranks]
    found: dict[tuple[str, ...], float] = defaultdict(float)
    for dropped in product((True, False), repeat=len(merges)):
        probability = np.prod([rate if out else 1 - rate for out in dropped])
        left = [merge for merge, out in zip(merges, dropped) if not out]
        if not left:
            found[cut] += probability
            continue
        _, place = min(left)
        merged = (*cut[:place], cut[place] + cut[place + 1], *cut[place + 2 :])
        for end, share in outcomes(merged, ranks, rate).items():
            found[end] += probability * share
    return found


@pytest.mark.parametrize("rate", [0.1, 0.6])
@pytest.mark.parametrize(
    ("word", "ranks"),
    [
        ("abc", {("a", "b"): 0, ("ab", "c</w>"): 1}),
        ("abc", {("b", "c</w>"): 0, ("a", "b"): 1, ("a", "bc</w>"): 2, ("ab", "c</w>"): 3}),
        ("aaa", {("a", "a"): 0, ("a", "a</w>"): 1, ("aa", "a</w>"): 2}),
        ("aaab", {("a", "a"): 0, ("aa", "a"): 1, ("a", "b</w>"): 2, ("aa", "b</w>"): 3}),
    ],
)
def test_each_cut_is_as_probable_as_by_enumeration(word: str, ranks: Merges, rate: float) -> None:
    expected = outcomes((*word[:-1], word[-1] + "</w>"), ranks, rate)
    assert sum(expected.values()) == pytest.approx(1)
    number = 50_000
    walks = MergeWalks(ranks, {}, rate)
    draw = LineDraws((1, 2, 3), np.arange(number), np.zeros(number, int))
    ends = walks.walk(np.full(number, walks.start(word)), draw)
    found = {walks.cuts[state]: count for state, count in zip(*np.unique(ends, return_counts=True))}
    assert found.keys() <= expected.keys()
    cuts = list(expected)
    observed, wanted = [found.get(cut, 0) for cut in cuts], [number * expected[cut] for cut in cuts]
    assert chisquare(observed, wanted).pvalue > 1e-4


def codes_of(folder: Path, words: list[str], merges: int) -> Path:
    with (folder / "codes").open("w", encoding="utf-8") as file:
        learn_bpe(io.StringIO("\n".join(words)), file, merges)
    return folder / "codes"


def test_without_dropout_a_word_is_cut_as_subword_nmt_cuts_it(tmp_path: Path) -> None:
    words = [*random_words(random.Random(1), 300), "aaaa", "banana", "ä", "x", "中文字"]
    codes = codes_of(tmp_path, words, 60)
    walks = MergeWalks(read_merges(codes), {}, 0.1)
    with codes.open(encoding="utf-8") as file:
        bpe = BPE(file)
    for word in words:
        cut = walks.cuts[walks.plain(word)]
        assert "@@ ".join(cut).removesuffix("</w>") == bpe.segment(word)


def test_pieces_give_the_word_back(tmp_path: Path) -> None:
    words = random_words(random.Random(2), 200)
    codes = codes_of(tmp_path, words, 60)
    ranks = read_merges(codes)
    letters = {letter for word in words for letter in word}
    made = ["".join(pair) for pair in ranks]
    names = [f"{letter}@@" for letter in letters] + [*letters, *(f"{piece}@@" for piece in made)]
    names = list(dict.fromkeys([*names, *(piece.removesuffix("</w>") for piece in made)]))
    walks = MergeWalks(ranks, {name: number for number, name in enumerate(names)}, 0.3)
    starts = np.array([walks.start(word) for word in words])
    ends = walks.walk(starts, LineDraws((5,), np.arange(len(words)), np.zeros(len(words), int)))
    pieces, lengths = walks.pieces_of(ends)
    assert MISSING not in pieces
    again = "".join(f"{names[piece]} " for piece in pieces).replace("@@ ", "").split()
    assert again == words
    undropped = walks.pieces_of(np.array([walks.plain(word) for word in words]))[1]
    assert lengths.sum() > undropped.sum()


def test_draws_belong_to_seed_line_and_place() -> None:
    lines, places = np.repeat(np.arange(500), 4), np.tile(np.arange(4), 500)
    draws = LineDraws((1, 2), lines, places)
    everything = np.arange(len(lines))
    first, second = draws(everything, 0), draws(everything, 1)
    alone = LineDraws((1, 2), lines[1000:1003], places[1000:1003])
    assert alone(np.array([2]), 1) == second[1002]
    others = [LineDraws(seeds, lines, places)(everything, 0) for seeds in ((1, 3), (2, 1))]
    drawn = np.concatenate([first, second, *others])
    assert len(np.unique(drawn)) == len(drawn)
    assert kstest(drawn, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.1


def test_faulty_codes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "codes").write_text("#version: 0.2\na b\nc\n")
    with pytest.raises(UserError, match="codes:3: must be two symbols, but is 'c'"):
        read_merges(tmp_path / "codes")
