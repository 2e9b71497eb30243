"""Scores of finished hypotheses, which make different lengths comparable (`docs/search.md`).

    score = log P(y | x) / lp(n) + cp                                                                 (23)

n counts the end symbol, as in fairseq; cp is the coverage penalty (`coverage.py`), 0 by default. As log P is negative,
a larger lp favours longer hypotheses.

Shapes: E hypotheses that end in the same step and so share the length n; S source positions.
"""

import math
from dataclasses import dataclass
from typing import Optional, Protocol

import torch
from torch import Tensor

from deepnmt.search.coverage import CoveragePenalty


class LengthPenalty(Protocol):
    """Makes long hypotheses comparable with short ones."""

    def __call__(self, length: int) -> float:
        """Return lp(n)."""


@dataclass(frozen=True)
class NoLengthPenalty:
    """lp = 1: fairseq's --unnormalized."""

    def __call__(self, length: int) -> float:
        """Return lp(n)."""
        return 1.0


@dataclass(frozen=True)
class PowerPenalty:
    """lp(n) = n^a, (24): fairseq's default, with a = 1, its --lenpen."""

    exponent: float

    def __call__(self, length: int) -> float:
        """Return lp(n)."""
        penalty: float = length**self.exponent
        return penalty


@dataclass(frozen=True)
class GnmtPenalty:
    """lp(n) = ((5 + n) / 6)^a, (24), for a = --lenpen (Wu 2016, arXiv 1609.08144, equation 14)."""

    exponent: float

    def __call__(self, length: int) -> float:
        """Return lp(n)."""
        penalty: float = ((5 + length) / 6) ** self.exponent
        return penalty


@dataclass(frozen=True)
class LogPenalty:
    """lp(n) = a log n, (24), for a = --lenpen; lp(1) = 0, the score of the empty translation -inf.

    Without cp, a changes no order.
    """

    factor: float

    def __call__(self, length: int) -> float:
        """Return lp(n)."""
        return self.factor * math.log(length)


@dataclass(frozen=True)
class HypothesisScore:
    """Scores hypotheses by (23).

    Args:
        length_penalty: lp
        coverage_penalty: gives cp; None: cp is 0
    """

    length_penalty: LengthPenalty
    coverage_penalty: Optional[CoveragePenalty] = None

    def __call__(self, total: Tensor, length: int, received: Optional[Tensor]) -> Tensor:
        """Return scores, E, for log P, E, and length n.

        The attention that source words have received is E x S; None: there is no coverage penalty.
        """
        penalty = self.length_penalty(length)
        score = total / penalty if penalty else torch.full_like(total, -math.inf)
        if self.coverage_penalty is None or received is None:
            return score
        return score + self.coverage_penalty(received)
