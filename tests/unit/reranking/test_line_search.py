"""The line search is exact, and tuning climbs by it: against grids, brute force, and sacrebleu."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU

from deepnmt.reranking.bleu_statistics import Array, BleuStatistics, corpus_bleu, oracle, table
from deepnmt.reranking.feature_table import FeatureTable
from deepnmt.reranking.tuning import best_point, bleu_of, nonnegative, tune

WORDS = ["a", "b", "c", "d", "e"]


def sentences(seed: int, count: int, most: int) -> tuple[list[list[str]], list[str]]:
    """Lists of noisy copies of references; their lengths differ, and one is empty."""
    draw = np.random.default_rng(seed)
    references = [" ".join(draw.choice(WORDS, draw.integers(4, 9))) for _ in range(count)]
    lists = []
    for number, reference in enumerate(references):
        size = 0 if number == 1 else most - number % 2
        lists.append([])
        for _ in range(size):
            kept = [word if draw.random() < 0.8 else draw.choice(WORDS) for word in reference.split()]
            lists[-1].append(" ".join(word for word in kept if draw.random() < 0.9))
    return lists, references


def problem(seed: int, count: int = 20, most: int = 5, features: int = 3) -> tuple[FeatureTable, Array]:
    lists, references = sentences(seed, count, most)
    draw = np.random.default_rng(seed)
    names = [f"f{number}" for number in range(features)]
    values = [[dict(zip(names, draw.standard_normal(features))) for _ in found] for found in lists]
    return FeatureTable.of(values, names), table(lists, references, BleuStatistics("none", False))


def test_corpus_bleu_is_sacrebleus() -> None:
    lists, references = sentences(1, 30, 3)
    metric = BLEU(tokenize="none", force=True)
    rows = range(len(lists))
    statistics = table(lists, references, BleuStatistics("none", False))
    for place in (0, 1):
        texts = [found[place] if found else "" for found in lists]
        expected = metric.corpus_score(texts, [references]).score
        places = [place if found else 0 for found in lists]
        assert corpus_bleu(statistics[rows, places].sum(axis=0)) == pytest.approx(expected, rel=1e-9)
    for text, reference in (("a b", "a b c d e"), ("a x y z q", "a b c d e"), ("x y z q w", "a b c d e"), ("", "a b")):
        (counted,) = table([[text]], [reference], BleuStatistics("none", False))[:, 0]
        assert corpus_bleu(counted) == pytest.approx(metric.corpus_score([text], [[reference]]).score, rel=1e-9)


def test_detokenised_text_is_tokenised_as_sacrebleu_does() -> None:
    statistics = BleuStatistics("13a", True)("Ein Hund, der schläft.", "ein Hund, der bellt!")
    assert statistics.tolist() == [4, 3, 2, 1, 6, 5, 4, 3, 6, 6]


@pytest.mark.parametrize("seed", range(4))
def test_line_search_against_a_grid(seed: int) -> None:
    features, statistics = problem(seed)
    draw = np.random.default_rng(100 + seed)
    weights, direction = draw.standard_normal(3), draw.standard_normal(3)
    point, bleu = best_point(features, statistics, weights, direction)
    assert bleu_of(statistics, features.best(weights + point * direction)) == pytest.approx(bleu, abs=1e-9)
    grid = np.linspace(-30, 30, 100_001)
    # 100,001 x N: the choice at each point, by brute force.
    heights, slopes = features.values @ weights, features.values @ direction
    best = np.full((len(grid), len(heights)), -np.inf)
    choice = np.zeros(best.shape, dtype=int)
    for place in range(heights.shape[1]):
        line = np.where(features.present[:, place], heights[:, place] + grid[:, None] * slopes[:, place], -np.inf)
        choice = np.where(line > best, place, choice)
        best = np.maximum(best, line)
    scores = corpus_bleu(sum(statistics[row, choice[:, row]] for row in range(len(heights))))
    assert bleu >= scores.max() - 1e-9
    # Where an interval is wider than the grid's steps, the grid finds it as well.
    assert bleu == pytest.approx(scores.max(), abs=0.2)
    if abs(point) < 30:
        assert scores[np.abs(grid - point).argmin()] == pytest.approx(bleu, abs=1.0)


def test_lines_that_are_parallel_equal_or_meet_in_one_point() -> None:
    # Heights and slopes; the upper envelope is 0, then 3 (1 and 2 only touch it); 4 and 5 are copies of 0 and 3.
    lines = [(0.0, -1.0), (0.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (0.0, 1.0)]
    values = [[{"height": height, "slope": slope} for height, slope in lines]]
    features = FeatureTable.of(values, ["height", "slope"])
    statistics = np.zeros((1, 6, 10))
    statistics[0, :, :4] = np.array([1, 9, 9, 2, 9, 9])[:, None]
    statistics[0, :, 4:] = 10
    point, bleu = best_point(features, statistics, np.array([1.0, 0.0]), np.array([0.0, 1.0]))
    assert (point > 0, bleu) == (True, pytest.approx(20))
    (choice,) = features.best(np.array([1.0, point]))
    assert choice == 3


def test_nothing_changes_along_a_line_of_constants() -> None:
    features = FeatureTable.of([[{"a": 1.0}, {"a": 1.0}]], ["a"])
    statistics = np.ones((1, 2, 10))
    assert best_point(features, statistics, np.array([1.0]), np.array([1.0])) == (0.0, pytest.approx(100))


def test_one_feature_is_its_order() -> None:
    features, _ = problem(3, features=1)
    order = features.scores(np.array([2.5])).argsort(axis=1)
    assert (order[:, -1] == np.where(features.present, features.values[..., 0], -np.inf).argmax(axis=1)).all()


def test_tuning_finds_the_feature_that_knows_the_answer() -> None:
    features, statistics = problem(5, count=40)
    knows = corpus_bleu(statistics + np.array([1.0] * 8 + [0.0] * 2))
    values = np.concatenate([features.values, -100 * knows[..., None]], axis=2)
    known = FeatureTable((*features.names, "wrong"), values, features.present)
    found = list(tune(known, statistics, ["f0"], seed=1, starts=3))
    best = max(found, key=lambda each: each.bleu)
    assert np.abs(best.weights).sum() == pytest.approx(1)
    assert best.weights[-1] < 0
    assert best.bleu == pytest.approx(bleu_of(statistics, known.best(best.weights)), abs=1e-9)
    assert best.bleu > bleu_of(statistics, known.best(np.array([1.0, 0, 0, 0]))) + 10
    again = list(tune(known, statistics, ["f0"], seed=1, starts=3))
    assert [each.weights.tolist() for each in found] == [each.weights.tolist() for each in again]


def test_a_feature_that_never_varies_has_no_weight() -> None:
    features, statistics = problem(6)
    values = np.concatenate([features.values, np.ones((*features.present.shape, 1))], axis=2)
    (first, *_) = tune(FeatureTable(("a", "b", "c", "same"), values, features.present), statistics, ["a"], starts=1)
    assert first.weights[-1] == 0


def test_oracle_against_brute_force() -> None:
    equal = 0
    for seed in range(30):
        lists, references = sentences(seed, 5, 3)
        statistics = table(lists, references, BleuStatistics("none", False))
        counts = np.array([len(found) for found in lists])
        rows = np.arange(len(lists))
        every = itertools.product(*(range(max(1, count)) for count in counts))
        best = max(bleu_of(statistics, np.array(choice)) for choice in every)
        chosen = oracle(statistics, counts)
        assert (chosen < np.maximum(counts, 1)).all()
        found = bleu_of(statistics, chosen)
        assert found <= best + 1e-9
        for row in rows:
            for place in range(counts[row]):
                other = chosen.copy()
                other[row] = place
                assert bleu_of(statistics, other) <= found + 1e-6
        equal += found >= best - 1e-9
    assert equal >= 25


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_an_ensemble_against_a_grid(seed: int) -> None:
    features, statistics = problem(seed, features=2)
    names = features.names
    found = max(tune(features, statistics, names, seed=1, starts=5, ensemble=True), key=lambda each: each.bleu)
    assert found.weights.min() >= 0
    assert found.weights.sum() == pytest.approx(1)
    shares = np.linspace(0, 1, 1001)
    grid = [bleu_of(statistics, features.best(np.array([share, 1 - share]))) for share in shares]
    assert found.bleu == pytest.approx(bleu_of(statistics, features.best(found.weights)), abs=1e-9)
    assert found.bleu == pytest.approx(max(grid), abs=1e-2)


def test_an_ensemble_is_tuned_from_its_mean_on() -> None:
    """Where no weights can do better, they are equal, however much each feature varies."""
    values = [[{"a": 9.0, "b": 0.0}, {"a": 0.0, "b": 1.0}]]
    statistics = np.ones((1, 2, 10))
    (first, *_) = tune(FeatureTable.of(values, ["a", "b"]), statistics, ["a", "b"], starts=1, ensemble=True)
    assert first.weights.tolist() == pytest.approx([0.5, 0.5])


def test_limits_of_a_line() -> None:
    weights, direction = np.array([1.0, 2.0, 0.0]), np.array([0.5, -1.0, 0.0])
    assert nonnegative(weights, direction) == (-2, 2)
    assert nonnegative(weights, np.array([1.0, 0, 1.0])) == (0, np.inf)
    features, statistics = problem(2)
    for direction in np.random.default_rng(1).standard_normal((50, 3)):
        low, high = span = nonnegative(np.ones(3), direction)
        point, bleu = best_point(features, statistics, np.ones(3), direction, span)
        assert low <= point <= high
        grid = [point for point in np.linspace(-5, 5, 200) if low <= point <= high]
        assert bleu >= max(bleu_of(statistics, features.best(1 + point * direction)) for point in grid) - 1e-9
