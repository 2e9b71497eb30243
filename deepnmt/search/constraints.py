"""Rules on what may come next, applied to the log-probabilities of each step before candidates are chosen.

Shapes: N sentences of M hypotheses (1 in the first step, then the beam); V types in W columns, -inf from column V on.
Rows are sentence-major: all hypotheses of the first sentence, then those of the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from deepnmt.search.hypotheses import Hypotheses


class StepRule(Protocol):
    """Changes log-probabilities, for which it may ask the hypotheses that they continue."""

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> None:
        """Change `log_probs`, NM x W and sentence-major, in place."""


@dataclass(frozen=True)
class Forbidden:
    """Types that never come, such as padding.

    Args:
        types: their numbers
    """

    types: int | Tensor

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> None:
        """See `StepRule`."""
        log_probs[:, self.types] = -math.inf


@dataclass(frozen=True)
class UnknownPenalty:
    """Unknown words cost more: fairseq's --unkpen.

    Args:
        unk: their type
        penalty: what their log-probability is lowered by
    """

    unk: int
    penalty: float

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> None:
        """See `StepRule`."""
        log_probs[:, self.unk] -= self.penalty


@dataclass(frozen=True)
class LengthRange:
    """How many tokens a hypothesis has before its end symbol: fairseq's --min-len, --max-len-a, and --max-len-b.

    Args:
        eos: the end symbol
        shortest: at least so many
        longest: at most so many
    """

    eos: int
    shortest: int
    longest: int

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> None:
        """See `StepRule`."""
        if hypotheses.position >= self.longest:
            log_probs[:, : self.eos] = -math.inf
            log_probs[:, self.eos + 1 :] = -math.inf
        elif hypotheses.position < self.shortest:
            log_probs[:, self.eos] = -math.inf
