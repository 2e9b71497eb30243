"""Weights by minimum error rate training: line searches from many starts (Och 2003, ACL, P03-1021)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deepnmt.reranking import STARTS
from deepnmt.reranking.bleu_statistics import Array, Choice, corpus_bleu
from deepnmt.reranking.feature_table import FeatureTable

# Closer corners count as one: between them, numbers are too coarse to choose a point.
CLOSEST = 1e-9
ROUNDS = 50
# Least gain of BLEU, from 0 to 100.
LEAST_GAIN = 1e-3


class Corners(NamedTuple):
    """The changes of the best translation of a sentence, in the order of each sentence.

    Attributes:
        first: the best of each sentence at g = -inf, N
        points: g, E
        rows: sentences, E
        before, after: the best on both sides, E
    """

    first: Choice
    points: Array
    rows: Choice
    before: Choice
    after: Choice


def envelope(heights: Array, slopes: Array, present: NDArray[np.bool_]) -> Corners:
    """Return the corners of the upper envelopes of lines, of all sentences at once.

    Args:
        heights: of the lines at g = 0, N x K
        slopes: N x K
        present: where there is a line, N x K
    """
    steepest_down = np.where(present, slopes, np.inf).min(axis=1, keepdims=True)
    current = np.where(present & (slopes == steepest_down), heights, -np.inf).argmax(axis=1)
    first = current.copy()
    rows = np.arange(len(current))
    last = np.full(len(current), -np.inf)
    found: list[tuple[Array, Choice, Choice, Choice]] = []
    while len(rows):
        height, slope = heights[rows], slopes[rows]
        own = current[rows, None]
        rise = slope - np.take_along_axis(slope, own, 1)
        gap = np.take_along_axis(height, own, 1) - height
        ahead = present[rows] & (rise > 0)
        crossing = np.where(ahead, gap / np.where(ahead, rise, 1), np.inf)
        point = crossing.min(axis=1)
        goes = np.isfinite(point)
        rows, crossing, slope, height, point = rows[goes], crossing[goes], slope[goes], height[goes], point[goes]
        # If several lines meet in one point, the steepest is the best from there on.
        meets = crossing == point[:, None]
        steepest = np.where(meets, slope, -np.inf).max(axis=1, keepdims=True)
        after = np.where(meets & (slope == steepest), height, -np.inf).argmax(axis=1)
        last[rows] = np.maximum(last[rows], point)
        found.append((last[rows], rows, current[rows], after))
        current[rows] = after
    points, sentences, before, later = (np.concatenate(parts) for parts in zip(*found)) if found else (
        np.empty(0), np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0, np.intp)
    )  # fmt: skip
    return Corners(first, points, sentences, before, later)


# Of g, without a limit.
ALL = (-np.inf, np.inf)


def nonnegative(weights: Array, direction: Array) -> tuple[float, float]:
    """Return the least and the greatest g at which no weight of w + g d, M, is negative."""
    moves = direction != 0
    ends = -weights[moves] / direction[moves]
    rises = direction[moves] > 0
    return float(ends[rises].max(initial=-np.inf)), float(ends[~rises].min(initial=np.inf))


def best_point(
    table: FeatureTable, statistics: Array, weights: Array, direction: Array, span: tuple[float, float] = ALL
) -> tuple[float, float]:
    """Return the point g on the line w + g d where BLEU is highest, and that BLEU; the nearest to 0 of equal ones.

    Args:
        table: features
        statistics: of the translations, N x K x S
        weights: w, M
        direction: d, M
        span: limits of g, with 0 between them
    """
    corners = envelope(table.values @ weights, table.values @ direction, table.present)
    start = statistics[np.arange(len(statistics)), corners.first].sum(axis=0)
    if not len(corners.points):
        return 0.0, float(corpus_bleu(start))
    # A sentence's corners are in order; a stable sort keeps the order of equal ones.
    order = np.argsort(corners.points, kind="stable")
    points, rows = corners.points[order], corners.rows[order]
    changes = statistics[rows, corners.after[order]] - statistics[rows, corners.before[order]]
    sums = start + np.concatenate([np.zeros((1, changes.shape[1])), np.cumsum(changes, axis=0)])
    low = np.concatenate([[-np.inf], points]).clip(min=span[0])
    high = np.concatenate([points, [np.inf]]).clip(max=span[1])
    # The point of an interval: its middle; for the outer intervals, a point beyond all corners.
    width = max(1.0, float(points[-1] - points[0]))
    middle = (
        np.where(np.isfinite(low), low, np.minimum(points[0], high) - width)
        + np.where(np.isfinite(high), high, np.maximum(points[-1], low) + width)
    ) / 2
    wide = high - low > CLOSEST * np.maximum(1, np.abs(middle))
    if not wide.any():
        return 0.0, -np.inf
    scores = np.where(wide, corpus_bleu(sums), -np.inf)
    best = np.flatnonzero(scores >= scores.max() - 1e-12)
    chosen = best[np.abs(middle[best]).argmin()]
    return float(middle[chosen]), float(scores[chosen])


@dataclass(frozen=True)
class Tuned:
    """The result of a start: weights whose absolute values sum to 1, M, and the BLEU of their choice."""

    weights: Array
    bleu: float


def bleu_of(statistics: Array, choice: Choice) -> float:
    """Return the corpus BLEU of a choice, N, among translations with statistics, N x K x S."""
    return float(corpus_bleu(statistics[np.arange(len(choice)), choice].sum(axis=0)))


def tune(
    table: FeatureTable,
    statistics: Array,
    positive: Collection[str],
    seed: int = 1,
    starts: int = STARTS,
    ensemble: bool = False,
) -> Iterator[Tuned]:
    """Yield the result of each start; the caller takes the best, and the first of equal ones.

    Features are scaled by how much they vary within a list, so that directions are comparable. The first start gives
    equal weights to `positive` features and 0 to the others; each further one draws all from [-1, 1]. From a start,
    each round searches along every feature and as many random directions, and takes the best of them.

    An `ensemble` has no negative weights, and the first start is its mean: equal weights of the features themselves.

    Args:
        table: features
        statistics: of the translations, N x K x S
        positive: features that are log-probabilities of models
        seed: of the random numbers
        starts: number of random starts
        ensemble: the features are the models of an ensemble
    """
    draw = np.random.default_rng(seed)
    count = len(table.names)
    spread = table.spread()
    varies = spread > 1e-12
    scaled = FeatureTable(table.names, table.values / np.where(varies, spread, 1), table.present)
    for number in range(starts + 1):
        weights = draw.uniform(0 if ensemble else -1, 1, count) * varies
        if number == 0:
            weights = spread if ensemble else np.array([float(name in positive) for name in table.names])
            weights = weights * varies
        weights, bleu = _climb(scaled, statistics, weights, np.flatnonzero(varies), draw, ensemble)
        original = weights / np.where(varies, spread, 1)
        size = np.abs(original).sum()
        yield Tuned(original / size if size else original, bleu)


def _climb(
    table: FeatureTable, statistics: Array, weights: Array, moving: Choice, draw: np.random.Generator, ensemble: bool
) -> tuple[Array, float]:
    """Return the weights at which no direction improves BLEU, and that BLEU; an ensemble's are at least 0."""
    bleu = bleu_of(statistics, table.best(weights))
    for _ in range(ROUNDS):
        axes = np.eye(len(weights))[moving]
        random = draw.standard_normal(axes.shape) * (np.arange(len(weights))[None] == moving[:, None]).any(axis=0)
        steps = []
        for direction in (*axes, *random):
            span = nonnegative(weights, direction) if ensemble else ALL
            point, reached = best_point(table, statistics, weights, direction, span)
            moved = weights + point * direction
            steps.append((reached, moved.clip(min=0) if ensemble else moved))
        if not steps:
            break
        reached, moved = max(steps, key=lambda step: step[0])
        size = np.abs(moved).max()
        moved = moved / size if size else moved
        # Rounding may have changed the choice at a corner.
        reached = bleu_of(statistics, table.best(moved))
        if reached < bleu + LEAST_GAIN:
            break
        weights, bleu = moved, reached
    return weights, bleu
