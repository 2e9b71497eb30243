"""Similarities are sacrebleu's, and the consensus is what brute force finds."""

from __future__ import annotations

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from deepnmt.reranking.consensus import expected_similarity
from deepnmt.reranking.similarity import bleu, chrf

TEXTS = [
    "Ein Hund läuft über die Wiese.",
    "Ein Hund rennt über das Gras!",
    "Der Hund läuft.",
    "",
    "a",
    "Hund",
    "Ein Hund läuft über die Wiese.",
    "(xyz) 3,5 %",
]


def test_each_pair_has_sacrebleus_scores() -> None:
    metrics = ((chrf, CHRF()), (bleu, BLEU(effective_order=True)))
    for function, metric in metrics:
        found = function(TEXTS)
        for row, text in enumerate(TEXTS):
            expected = [metric.sentence_score(text, [reference]).score for reference in TEXTS]
            assert found[row] == pytest.approx(expected, abs=1e-9)


def test_consensus_by_brute_force() -> None:
    chances = [0.3, 0.05, 0.2, 0.1, 0.05, 0.1, 0.1, 0.1]
    for name, metric in (("chrf", CHRF()), ("bleu", BLEU(effective_order=True))):
        expected = [
            sum(chance * metric.sentence_score(text, [other]).score for chance, other in zip(chances, TEXTS))
            for text in TEXTS
        ]
        assert expected_similarity(TEXTS, chances, name) == pytest.approx(expected, abs=1e-9)


def test_equal_translations_are_equally_good() -> None:
    assert expected_similarity(["Ein Hund."] * 3, [0.5, 0.3, 0.2], "chrf") == pytest.approx([100, 100, 100])
    assert expected_similarity(["Ein Hund."], [1.0], "bleu") == pytest.approx([100])
