"""Weights by minimum error rate training: line searches from many starts (Och 2003, ACL, P03-1021)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from deepnmt.reranking import STARTS
from deepnmt.reranking.bleu_statistics import Array, corpus_bleu
from deepnmt.reranking.feature_table import Choice, FeatureTable
from deepnmt.reranking.line_search import best_point

ROUNDS = 50
# Of BLEU, from 0 to 100: less is no gain.
LEAST_GAIN = 1e-3


@dataclass(frozen=True)
class Tuned:
    """What a start ends with: weights whose absolute values sum to 1, M, and the BLEU of their choice."""

    weights: Array
    bleu: float


def bleu_of(statistics: Array, choice: Choice) -> float:
    """Return the corpus BLEU of a choice, N, among translations with statistics, N x K x S."""
    return float(corpus_bleu(statistics[np.arange(len(choice)), choice].sum(axis=0)))


def tune(
    table: FeatureTable, statistics: Array, positive: Collection[str], seed: int = 1, starts: int = STARTS
) -> Iterator[Tuned]:
    """Give what each start ends with; the caller takes the best, and the first of equal ones.

    Features are scaled by how much they vary within a list, so that directions are comparable. The first start gives
    equal weights to `positive` features and 0 to the others; each further one draws all from [-1, 1]. From a start,
    each round searches along every feature and as many random directions, and takes the best of them.

    Args:
        table: features
        statistics: of the translations, N x K x S
        positive: features that are log-probabilities of models
        seed: of the random numbers
        starts: how many random ones
    """
    draw = np.random.default_rng(seed)
    count = len(table.names)
    spread = table.spread()
    varies = spread > 1e-12
    scaled = FeatureTable(table.names, table.values / np.where(varies, spread, 1), table.present)
    for number in range(starts + 1):
        weights = draw.uniform(-1, 1, count) * varies
        if number == 0:
            weights = np.array([float(name in positive) for name in table.names]) * varies
        weights, bleu = _climb(scaled, statistics, weights, np.flatnonzero(varies), draw)
        original = weights / np.where(varies, spread, 1)
        size = np.abs(original).sum()
        yield Tuned(original / size if size else original, bleu)


def _climb(
    table: FeatureTable, statistics: Array, weights: Array, moving: Choice, draw: np.random.Generator
) -> tuple[Array, float]:
    """Return the weights at which no direction gains anything more, and their BLEU."""
    bleu = bleu_of(statistics, table.best(weights))
    for _ in range(ROUNDS):
        axes = np.eye(len(weights))[moving]
        random = draw.standard_normal(axes.shape) * (np.arange(len(weights))[None] == moving[:, None]).any(axis=0)
        steps = []
        for direction in (*axes, *random):
            point, reached = best_point(table, statistics, weights, direction)
            steps.append((reached, weights + point * direction))
        if not steps:
            break
        reached, moved = max(steps, key=lambda step: step[0])
        size = np.abs(moved).max()
        moved = moved / size if size else moved
        # Rounding may have moved a choice that stands on a corner.
        reached = bleu_of(statistics, table.best(moved))
        if reached < bleu + LEAST_GAIN:
            break
        weights, bleu = moved, reached
    return weights, bleu
