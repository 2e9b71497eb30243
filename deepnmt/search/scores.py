"""Scores of finished hypotheses: what the search compares hypotheses of different lengths by.

    score = log P(y | x) / lp(n)                 n counts the end symbol, as in fairseq

Shapes: E hypotheses that end in the same step, so that all have the length n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class HypothesisScore(Protocol):
    """Scores hypotheses by their sum of log-probabilities."""

    def __call__(self, total: Tensor, length: int) -> Tensor:
        """Return the scores, E, of hypotheses with the sums `total`, E, and the length n."""


@dataclass(frozen=True)
class Unnormalized:
    """log P(y | x) itself: fairseq's --unnormalized."""

    def __call__(self, total: Tensor, length: int) -> Tensor:
        """Return the sums."""
        return total


@dataclass(frozen=True)
class PowerNormalized:
    """lp(n) = n^a: fairseq's default, with a = 1.

    Args:
        exponent: a, fairseq's --lenpen
    """

    exponent: float

    def __call__(self, total: Tensor, length: int) -> Tensor:
        """Return the sums divided by lp(n)."""
        penalty: float = length**self.exponent
        return total / penalty
