"""Similarities are sacrebleu's, and the consensus is what brute force finds."""

from __future__ import annotations

from typing import Any

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from deepnmt.reranking.consensus import bleu, chrf, expected_similarity
from deepnmt.reranking.corpus import Corpus
from deepnmt.reranking.merged_lists import Candidate, MergedLists
from deepnmt.reranking.reranked_lists import by_consensus
from deepnmt.text.settings import TextSettings

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
    metrics: list[tuple[Any, CHRF | BLEU]] = [(chrf(TEXTS), CHRF())]
    for name in ("13a", "zh", "char", "none"):
        metrics.append((bleu(TEXTS, name), BLEU(effective_order=True, tokenize=name)))
    for found, metric in metrics:
        for row, text in enumerate(TEXTS):
            expected = [metric.sentence_score(text, [reference]).score for reference in TEXTS]
            assert found[row] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("language", "tokenised", "name"),
    [("zh", False, "zh"), ("ja", False, "char"), ("en", False, "13a"), ("en", True, "none"), ("zh", True, "zh")],
)
def test_consensus_compares_as_the_languages_bleu_does(language: str, tokenised: bool, name: str) -> None:
    texts = ["今天天气很好我们去公园。", "今天天气很好,我们去公园玩", "今天 天气 很好,我们 去公园", "hello,world 3,5"]
    found = [Candidate(text, {}, chance) for text, chance in zip(texts, (0.2, 0.25, 0.25, 0.3))]
    corpus = Corpus([texts], [""], [""], TextSettings("de", language), tokenised)
    (order,) = by_consensus(MergedLists("valid", False, [found], ()), corpus, "bleu", "model")
    metric = BLEU(effective_order=True, tokenize=name)
    expected = [
        sum(each.probability * metric.sentence_score(text, [each.subwords]).score for each in found) for text in texts
    ]
    assert [each.features["consensus"] for each in found] == pytest.approx(expected, abs=1e-9)
    assert order == sorted(range(4), key=lambda place: -expected[place])


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
