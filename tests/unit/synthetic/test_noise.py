"""Noise (29): how far words move, how often they go, and that it depends on nothing but line and seed."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from pathlib import Path

import pytest

from deepnmt.errors import UserError
from deepnmt.synthetic.noise import BLANK, NO_NOISE, Noise, draw_for, noisy
from deepnmt.synthetic.pairs import Pair, PairRules
from deepnmt.text.words import signs_of

WORDS = [f"w{number}" for number in range(12)]


def apart(count: int, trials: int, probability: float) -> float:
    """How many standard deviations a count lies from its mean."""
    return abs(count - trials * probability) / math.sqrt(trials * probability * (1 - probability))


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_no_word_moves_further_than_k_and_some_move_so_far(most: int) -> None:
    moved = Counter[int]()
    for line in range(1500):
        words = Noise(shuffle=most)(WORDS, draw_for(1, line))
        assert sorted(words) == sorted(WORDS)
        moved.update(abs(place - WORDS.index(word)) for place, word in enumerate(words))
    assert max(moved) == most


def test_two_words_are_swapped_in_an_eighth_of_all_lines() -> None:
    # u_1 - u_2 > 1 for u ~ U(0, 2): a triangle of area 1/2 in a square of area 4.
    lines = 20_000
    swapped = sum(Noise(shuffle=1)(["a", "b"], draw_for(3, line)) == ["b", "a"] for line in range(lines))
    assert apart(swapped, lines, 1 / 8) < 4


def test_deletions_and_blanks_are_binomial() -> None:
    noise, lines, size = Noise(delete=0.1, blank=0.2), 4_000, len(WORDS)
    kept, blanks = Counter[int](), 0
    for line in range(lines):
        words = noise(WORDS, draw_for(5, line))
        kept[len(words)] += 1
        blanks += words.count(BLANK)
        assert [word for word in words if word != BLANK] == [word for word in WORDS if word in words]
    for left in range(8, size + 1):
        chance = math.comb(size, left) * 0.9**left * 0.1 ** (size - left)
        assert apart(kept[left], lines, chance) < 4
    assert apart(blanks, sum(left * times for left, times in kept.items()), 0.2) < 4


def test_a_line_is_never_empty_and_the_word_that_stays_is_any() -> None:
    stayed = Counter(Noise(delete=0.999)(["a", "b"], draw_for(1, line))[0] for line in range(400))
    assert apart(stayed["a"], 400, 0.5) < 4
    assert stayed.total() == 400


def test_without_rates_nothing_changes() -> None:
    assert Noise.parse("delete=0,blank=0.0,shuffle=0") == NO_NOISE
    assert NO_NOISE(WORDS, random.Random(1)) == WORDS


def test_noise_depends_on_line_and_seed_alone() -> None:
    noise = Noise(0.3, 0.3, 3)
    assert noise(WORDS, draw_for(1, 7)) == noise(WORDS, draw_for(1, 7))
    assert len({tuple(noise(WORDS, draw_for(seed, line))) for seed in (1, 2) for line in (1, 11, 111)}) == 6


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("delete=1", "--noise delete must be at least 0 and below 1, but is 1"),
        ("blank=-0.1", "--noise blank must be at least 0 and below 1, but is -0.1"),
        ("delete=nan", "--noise delete must be at least 0 and below 1, but is nan"),
        ("shuffle=-1", "--noise shuffle must be at least 0, but is -1"),
        ("shuffle=1.5", "--noise shuffle must be a number, but is 1.5"),
        ("swap=3", "--noise must be delete, blank, shuffle, each once with its value, but is 'swap=3'"),
        ("blank=0.1,blank=0.1", "--noise must be delete, blank, shuffle, each once"),
    ],
)
def test_other_noise_is_refused(text: str, fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        Noise.parse(text)


def test_order_of_the_options_does_not_matter() -> None:
    assert Noise.parse("shuffle=3,delete=0.1") == Noise(delete=0.1, shuffle=3)


def test_characters_of_chinese_move_and_vanish_one_by_one() -> None:
    tokens = ["今天老师看书", "，", "&quot;", "我们", "<unk>", "AI100部"]
    words = [*"今天老师看书，", "&quot;", *"我们", "<unk>", "AI100", "部"]
    seen = set()
    for line in range(200):
        made = noisy(tokens, "zh", Noise(shuffle=2), draw_for(1, line))
        found = [word for token in made for word in ([token] if token in words else signs_of(token))]
        assert sorted(found) == sorted(words)
        assert {"，", "&quot;", "<unk>"} <= set(made)
        seen.add(" ".join(made))
    assert len(seen) > 150
    lines = [noisy(tokens, "zh", Noise(delete=0.5), draw_for(1, line)) for line in range(400)]
    left = [sum(len(signs_of(token.replace("&quot;", '"').replace("<unk>", "x"))) for token in each) for each in lines]
    assert apart(sum(left), 400 * len(words), 0.5) < 4
    # What is left of a clause is one token.
    assert noisy(["今天老师"], "zh", Noise(delete=0.5), draw_for(1, 3)) in [
        ["".join(some)] for size in range(1, 5) for some in itertools.combinations("今天老师", size)
    ]


def test_marks_of_spaces_go_with_the_word_after_them() -> None:
    tokens = ["un", "po", "‿", "&apos;", "di", "␣", "vino"]
    for line in range(100):
        made = noisy(tokens, "it", Noise(delete=0.3, shuffle=3), draw_for(2, line))
        assert all(
            made[place + 1 :][:1] == [{"‿": "&apos;", "␣": "vino"}[mark]]
            for place, mark in enumerate(made)
            if mark in "‿␣"
        )
    assert noisy(tokens, "it", NO_NOISE, draw_for(1, 1)) == tokens
    blanked = [noisy(tokens, "it", Noise(blank=0.99), draw_for(3, line)) for line in range(5)]
    assert [BLANK] * 5 in blanked


def test_a_clause_with_an_unknown_piece_is_not_unknown_as_a_whole(tmp_path: Path) -> None:
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\n我 们\n", encoding="utf-8")

    def made(languages: tuple[str, str], translation: str, real: str) -> Pair:
        rules, counts = PairRules(codes, languages, synthetic_source=False), Counter[str]()
        (pair,) = rules.pairs([(real, real)], [translation], counts)
        return pair

    chinese = made(("en", "zh"), "我@@ 们@@ <unk>@@ 书 。", "we")
    assert (chinese.target, chinese.target_bpe) == ("我们 <unk> 书 。", "我@@ 们 <unk> 书 。")
    assert made(("en", "de"), "das@@ <unk> ist", "x").target_bpe == "<unk> i@@ s@@ t"
