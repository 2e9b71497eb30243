"""The trigram model of characters against its formula in float64, and what it tells apart."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from grammar.generate import sample_pairs

from deepnmt.corpus.cleaning.character_model import FLOOR, SINGLE, WEIGHT, CharacterModel, Trigrams

LINES = ["Ab ba.", "", "aab b", "ca"]


def entropy(line: str, lines: list[str]) -> float:
    singles, doubles, triples = Counter[str](), Counter[str](), Counter[str]()
    for each in lines:
        text = "\n\n" + each.lower()
        for place in range(2, len(text)):
            singles[text[place]] += 1
            doubles[text[place - 2 : place]] += 1
            triples[text[place - 2 : place + 1]] += 1
    total, text = 0.0, "\n\n" + line.lower()
    for place in range(2, len(text)):
        usual = (singles[text[place]] + FLOOR) / (sum(singles.values()) + FLOOR * SINGLE)
        before = doubles[text[place - 2 : place]]
        total -= math.log((triples[text[place - 2 : place + 1]] + WEIGHT * usual) / (before + WEIGHT))
    return total / len(line) if line else 0.0


def test_entropies_are_the_formula() -> None:
    model = CharacterModel.learn(Trigrams(LINES))
    asked = [*LINES, "abc", "zzz"]
    entropies = model.entropies(Trigrams(asked))
    np.testing.assert_allclose(entropies, [entropy(line, LINES) for line in asked], rtol=1e-6)


def test_a_line_does_not_depend_on_its_neighbours() -> None:
    model = CharacterModel.learn(Trigrams(LINES))
    alone = [float(model(Trigrams([line]))[0]) for line in LINES]
    np.testing.assert_allclose(model(Trigrams(LINES[::-1]))[::-1], alone, atol=1e-12)


def test_middle_and_spread() -> None:
    text = Trigrams([german for german, _ in sample_pairs(400, seed=1)])
    model = CharacterModel.learn(text)
    distances = model(text)
    assert np.median(distances) == pytest.approx(0, abs=0.1)
    low, high = np.percentile(distances, [15.87, 84.13])
    assert (high - low) / 2 == pytest.approx(1)


def test_the_two_languages_are_told_apart_by_the_two_models() -> None:
    pairs = sample_pairs(600, seed=1)
    german, english = (CharacterModel.learn(Trigrams([pair[side] for pair in pairs])) for side in (0, 1))

    def margin(lines: list[str]) -> list[float]:
        return (german.entropies(Trigrams(lines)) - english.entropies(Trigrams(lines))).tolist()

    fresh = sample_pairs(200, seed=2)
    assert min(margin([pair[1] for pair in fresh])) > 0.2 > -0.2 > max(margin([pair[0] for pair in fresh]))
