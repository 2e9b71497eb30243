"""Networks hold all that they are made of, and their search finds what enumeration finds."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from deepnmt.reranking.confusion_network import (
    NOTHING,
    Prefix,
    SearchWeights,
    Slot,
    Word,
    align,
    network,
    paths,
    search_all,
    words_of,
)


def words(text: str) -> list[Word]:
    return [(word,) for word in text.split()]


def test_words_of_subwords() -> None:
    assert words_of("a b@@ c@@ d e") == [("a",), ("b@@", "c@@", "d"), ("e",)]
    assert words_of("") == []
    # A translation may break off in a word.
    assert words_of("a b@@") == [("a",), ("b@@",)]


def distance(one: list[Word], other: list[Word]) -> int:
    """Levenshtein's, by its definition."""
    if not one or not other:
        return len(one) + len(other)
    both = distance(one[1:], other[1:]) + (one[0] != other[0])
    return min(both, 1 + distance(one[1:], other), 1 + distance(one, other[1:]))


def test_alignments_have_the_least_number_of_changes() -> None:
    draw = random.Random(1)
    for _ in range(60):
        skeleton, other = (words(" ".join(draw.choices("abc", k=draw.randint(0, 5)))) for _ in range(2))
        placed = align(skeleton, other)
        assert [word for _, word in placed] == other
        places = [place for place, _ in placed]
        assert places == sorted(places)
        at = {place: word for place, word in placed if place % 2}
        changes = sum(place % 2 == 0 for place in places) + len(skeleton) - len(at)
        changes += sum(skeleton[place // 2] != word for place, word in at.items())
        assert changes == distance(skeleton, other)


def test_ties_go_to_the_left() -> None:
    assert align(words("a a"), words("a")) == [(1, ("a",))]
    assert align(words("b"), words("a c")) == [(1, ("a",)), (2, ("c",))]


def test_every_translation_is_a_path_and_slots_sum_to_1() -> None:
    draw = random.Random(2)
    for _ in range(30):
        texts = [words(" ".join(draw.choices("abcd", k=draw.randint(1, 6)))) for _ in range(4)]
        chances = [0.4, 0.3, 0.2, 0.1]
        slots = network(texts[0], texts, chances)
        for text, path in zip(texts, paths(texts[0], texts)):
            assert [word for word in path if word != NOTHING] == text
            assert all(word in slot for word, slot in zip(path, slots))
        for slot in slots:
            assert sum(slot.values()) == pytest.approx(1)


def test_a_network_by_hand() -> None:
    texts = [words("the cat sat"), words("a cat"), words("the black cat sat down")]
    slots = network(texts[0], texts, [0.5, 0.3, 0.2])
    expected = [
        {("the",): 0.7, ("a",): 0.3},
        {NOTHING: 0.8, ("black",): 0.2},
        {("cat",): 1.0},
        {("sat",): 0.7, NOTHING: 0.3},
        {NOTHING: 0.8, ("down",): 0.2},
    ]
    assert [{word: pytest.approx(chance) for word, chance in slot.items()} for slot in expected] == slots


def log_prob(sentence: int, prefix: Prefix, ended: bool) -> float:
    """A model of its own: some number for each token after each prefix."""
    tokens = [*prefix, "</s>"] if ended else prefix
    return sum(-random.Random(f"{sentence} {tokens[: place + 1]}").random() * 3 for place in range(len(tokens)))


def random_slots(seed: int) -> list[Slot]:
    draw = random.Random(seed)
    choices: list[Word] = [NOTHING, ("a",), ("b@@", "c"), ("d",), ("a", "a")]
    slots = []
    for _ in range(5):
        chances = [draw.random() for _ in range(3)]
        slots.append(dict(zip(draw.sample(choices, 3), (chance / sum(chances) for chance in chances))))
    return slots


@pytest.mark.parametrize(
    "weights", [SearchWeights(), SearchWeights(0.4, 1.3, 0.7), SearchWeights(1.0, 0.0, -0.5), SearchWeights(-0.3, 1.0)]
)
def test_search_against_all_paths(weights: SearchWeights) -> None:
    networks = [random_slots(seed) for seed in range(3)]
    asked: list[int] = []

    def score(wanted: list[tuple[int, Prefix]], ended: bool) -> list[float]:
        asked.append(len(wanted))
        return [log_prob(number, prefix, ended) for number, prefix in wanted]

    found = search_all(networks, weights, 3**5, score)
    assert max(asked) > 3**4
    for number, slots in enumerate(networks):
        best: dict[Prefix, float] = {}
        for chosen in itertools.product(*(slot.items() for slot in slots)):
            text = tuple(subword for word, _ in chosen for subword in word)
            total = weights.network * sum(math.log(chance) for _, chance in chosen)
            total += weights.model * log_prob(number, text, True) + weights.length * (len(text) + 1)
            best[text] = max(best.get(text, -math.inf), total)
        expected = sorted(best.items(), key=lambda item: -item[1])
        assert [path.score(weights) for path in found[number]] == pytest.approx([total for _, total in expected])
        assert found[number][0].subwords == expected[0][0]


def test_a_narrow_beam_keeps_the_best_prefixes() -> None:
    slots: list[Slot] = [{("a",): 0.6, ("b",): 0.4}, {("c",): 0.9, NOTHING: 0.1}]
    (found,) = search_all([slots], SearchWeights(1.0, 0.0, 0.0), 1, lambda wanted, ended: [0.0] * len(wanted))
    assert [(path.subwords, path.length) for path in found] == [(("a", "c"), 3)]
    assert found[0].network == pytest.approx(math.log(0.6) + math.log(0.9))


def test_a_sentence_without_slots_is_the_empty_path() -> None:
    (found,) = search_all([[]], SearchWeights(), 3, lambda wanted, ended: [-2.0] * len(wanted))
    assert [(path.subwords, path.model) for path in found] == [((), -2.0)]


def test_characters_of_chinese_are_words_and_bytes_stay_together() -> None:
    assert words_of("我@@ 们@@ 说 <0xE4>@@ <0xB8>@@ <0xAD>@@ <0xC3>@@ <0xA4> a", "zh-CN") == [
        ("我@@",), ("们@@",), ("说",), ("<0xE4>@@", "<0xB8>@@", "<0xAD>@@"), ("<0xC3>@@", "<0xA4>"), ("a",),
    ]  # fmt: skip
    texts = [words_of(text, "zh") for text in ("我@@ 们@@ 说", "我@@ 你@@ 说@@ 。", "们 说@@")]
    slots = network(texts[0], texts, [0.5, 0.3, 0.2])
    # A word inside a clause and at its end is the same word.
    expected = [
        {("我@@",): 0.8, NOTHING: 0.2},
        {("们@@",): 0.7, ("你@@",): 0.3, ("们",): 0.7},
        {("说",): 1.0, ("说@@",): 1.0},
        {NOTHING: 0.7, ("。",): 0.3},
    ]
    assert [{word: pytest.approx(chance) for word, chance in slot.items()} for slot in expected] == slots
