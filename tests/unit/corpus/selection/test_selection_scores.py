"""Scores of lines that are to be like a text, against scikit-learn and the definitions."""

from __future__ import annotations

import math
import random
import tracemalloc
from collections import Counter

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from deepnmt.corpus.ngram.kneser_ney import estimate
from deepnmt.corpus.selection.likeness import CrossEntropyDifference, TfIdf, best, score_all


def lines(number: int, seed: int, topic: str) -> list[list[str]]:
    """Lines of common words, and some of a topic's."""
    draw = random.Random(seed)
    words = [f"common{n}" for n in range(12)] + [f"{topic}{n}" for n in range(8)]
    return [draw.choices(words, k=draw.randint(2, 9)) for _ in range(number)]


GARDEN, KITCHEN = lines(150, 1, "garden"), lines(150, 2, "kitchen")
ALL = [line for pair in zip(GARDEN, KITCHEN) for line in pair]
LIKE = lines(120, 3, "garden")


def test_tfidf_is_that_of_scikit_learn() -> None:
    like = [*LIKE, [], ["never", "seen"], ["never", "common1"]]
    vectorizer = TfidfVectorizer(analyzer=lambda line: line)
    all_ = vectorizer.fit_transform(ALL)
    expected = (all_ @ vectorizer.transform(like).T).toarray().max(axis=1)
    found = TfIdf(ALL, like)([*ALL, [], ["never"]])
    np.testing.assert_allclose(found, [*expected, 0, 0], atol=1e-12)
    assert 0 <= expected.min() < 0.3 < 0.9 < expected.max() < 1 + 1e-9


def test_the_memory_of_tfidf_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def peak(like: list[list[str]]) -> int:
        scorer = TfIdf(ALL, like)
        tracemalloc.start()
        scorer(ALL)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    monkeypatch.setattr("deepnmt.corpus.selection.likeness.BLOCK", 100)
    assert peak(LIKE[:100] * 40) < 1.5 * peak(LIKE[:100])


def test_tfidf_looks_at_all_lines_of_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TfIdf(ALL, LIKE)(ALL)
    monkeypatch.setattr("deepnmt.corpus.selection.likeness.BLOCK", 7)
    np.testing.assert_array_equal(TfIdf(ALL, LIKE)(ALL), whole)


def test_cross_entropy_difference_is_moore_and_lewis() -> None:
    # A word that the text has once is unknown.
    sample, like = [*ALL[::2], ["once"]], [*LIKE, ["once", "common1"]]
    counts = Counter(word for line in like for word in line)
    known = {word for word, count in counts.items() if count >= 2}
    masked = [[[w if w in known else "<unk>" for w in line] for line in text] for text in (like, sample)]
    # `<unk>` of a text is that of a model.
    inside, everything = (estimate(text, 3, known) for text in masked)
    probe = [*ALL[:20], ["kitchen1", "never"], ["once"]]
    expected = []
    for line in probe:
        scores = [model.log_probabilities([line])[0] for model in (everything, inside)]
        expected.append(float(np.log(10) * (scores[1].sum() - scores[0].sum()) / (len(line) + 1)))
    assert CrossEntropyDifference(sample, like)(probe) == pytest.approx(expected)


def unigrams(text: list[str], known: list[str]) -> dict[str, float]:
    """P of the words of a text of which each is a line of its own, so few that the discounts are 0.5, 1 and 1.5.

    Two of three tokens of the Kneser-Ney counts are those of the pairs `<s> w` and `w </s>`, all of them different.
    """
    types = {word if word in known else "<unk>" for word in text}
    follows = dict.fromkeys(types, 1) | {"</s>": len(types)}
    total = sum(follows.values())
    discounts = {word: (0.5, 1.0, 1.5)[min(count, 3) - 1] for word, count in follows.items()}
    rest = sum(discounts.values()) / total
    vocabulary = [*known, "</s>", "<unk>"]
    return {
        word: (follows.get(word, 0) - discounts.get(word, 0)) / total + rest / len(vocabulary) for word in vocabulary
    }


def test_a_known_word_that_the_sample_lacks_is_none_of_the_unknown_ones() -> None:
    like, sample, known = ["a", "a", "b", "b"], ["a", "a", "x", "y", "z"], ["a", "b"]
    counts = [unigrams(text, known) for text in (sample, like)]

    def log_p(word: str, text: list[str], p: dict[str, float]) -> float:
        """log P of a line of one word, by trigrams; all discounts are those of so little text."""
        lines = Counter(each if each in known else "<unk>" for each in text)
        weight = {n: (0.5, 1.0, 1.5)[min(n, 3) - 1] for n in lines.values()}
        total, gamma = len(text), sum(weight[n] for n in lines.values()) / len(text)
        first = gamma * p[word] + (max(lines[word] - weight[lines[word]], 0) / total if word in lines else 0)
        if word not in lines:
            return math.log(first) + math.log(p["</s>"])
        second = (1 - 0.5) / 1 + 0.5 * p["</s>"]  # </s> after w, which it follows in one way
        n = lines[word]
        third = (n - weight[n]) / n + weight[n] / n * second
        return math.log(first) + math.log(third)

    expected = [(log_p(word, like, counts[1]) - log_p(word, sample, counts[0])) / 2 for word in known]
    found = CrossEntropyDifference([[word] for word in sample], [[word] for word in like])([["a"], ["b"]])
    assert found == pytest.approx(expected, rel=1e-5)
    assert found[1] > found[0]


@pytest.mark.parametrize("workers", [1, 2])
def test_both_find_the_lines_of_the_topic(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deepnmt.corpus.selection.likeness.BLOCK", 70)
    text = [" ".join(line) + "\n" for line in ALL]
    shown: list[int] = []
    for scorer in (TfIdf(ALL, LIKE), CrossEntropyDifference(ALL[::3], LIKE)):
        scores = score_all(scorer, text, "en", workers, shown.append)
        np.testing.assert_allclose(scores, scorer(ALL))
        found = best(scores, 120)
        assert list(found) == sorted(found)
        assert np.mean(found % 2 == 0) > 0.8
    assert shown == [70, 70, 70, 70, 20] * 2


def test_of_equal_scores_the_first_are_chosen() -> None:
    assert best(np.array([1, 3, 1, 3, 1, 3.0]), 4).tolist() == [0, 1, 3, 5]
