"""BLEU of single sentences against sacrebleu."""

from __future__ import annotations

import random

import pytest
from sacrebleu.metrics.bleu import BLEU

from deepnmt.text.sentence_bleu import SentenceBleu


def test_it_is_sacrebleus() -> None:
    draw, metric, zeros = random.Random(1), BLEU(tokenize="none", effective_order=True), 0
    for _ in range(400):
        reference = draw.choices("abcdefghij", k=draw.randint(1, 14))
        # Some are near to the reference, most are not.
        translation = [draw.choice("abcdefghij") if draw.random() < 0.4 else word for word in reference]
        translation = translation[: draw.randint(0, 14)] + draw.choices("abk", k=draw.randint(0, 3))
        expected = metric.sentence_score(" ".join(translation), [" ".join(reference)]).score
        assert 100 * SentenceBleu(reference)(translation) == pytest.approx(expected, abs=1e-9)
        zeros += expected == 0
    assert 0 < zeros < 100


def test_the_reference_itself_is_perfect_and_nothing_is_worth_nothing() -> None:
    assert SentenceBleu(["ein", "hund"])(["ein", "hund"]) == pytest.approx(1)
    assert SentenceBleu(["ein", "hund"])([]) == 0
    assert SentenceBleu([])(["hund"]) == 0
