"""Constraints on the next token, applied to the log-probabilities of each step before candidates are chosen.

Shapes: N sentences of M hypotheses (1 in the first step, then the beam); V types in W columns, -inf from column V on.
Rows are sentence-major: all hypotheses of the first sentence, then all of the second.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Protocol, TypeVar

import torch
from torch import Tensor

from deepnmt.search.hypotheses import Hypotheses


class StepRule(Protocol):
    """Changes log-probabilities, possibly depending on the hypotheses that they continue."""

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> None:
        """Change `log_probs`, NM x W and sentence-major, in place."""


# Rules of the search options with these names, called with the option's value.
BY_OPTION: dict[str, Callable[[Any], StepRule]] = {}
Rule = TypeVar("Rule", bound=Callable[[Any], StepRule])


def asked_by(option: str) -> Callable[[Rule], Rule]:
    """Have every search apply a rule if `option`, a row of `options/option_table.py`, is given."""

    def register(rule: Rule) -> Rule:
        BY_OPTION[option] = rule
        return rule

    return register


@dataclass(frozen=True)
class Forbidden:
    """Types that never occur, such as padding."""

    types: int | Tensor

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> None:
        """See `StepRule`."""
        log_probs[:, self.types] = -math.inf


@dataclass(frozen=True)
class UnknownPenalty:
    """A higher price of unknown words: fairseq's --unkpen."""

    unk: int
    penalty: float

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> None:
        """See `StepRule`."""
        log_probs[:, self.unk] -= self.penalty


@dataclass(frozen=True)
class LengthRange:
    """The number of tokens before a hypothesis's end symbol: fairseq's --min-len, --max-len-a, and --max-len-b."""

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


@dataclass(frozen=True)
class LengthRatio:
    """A length range for each sentence: low m <= n <= high m tokens before the end symbol, for m source words.

    `LengthRange` also applies. Bounds are rounded inwards; if no length remains, the lower bound is allowed. A bound of
    None is not enforced.
    """

    low: Optional[float]
    high: Optional[float]

    def bounds(self, words: int, allowed: LengthRange) -> tuple[int, int]:
        """Return the shortest and the longest length for m source words."""
        # A product such as 0.1 * 30 is slightly above the intended whole number.
        low = allowed.shortest if self.low is None else math.ceil(round(self.low * words, 6))
        high = allowed.longest if self.high is None else math.floor(round(self.high * words, 6))
        shortest = min(max(low, allowed.shortest), allowed.longest)
        return shortest, min(max(high, shortest), allowed.longest)


class SentenceLengthRange:
    """As `LengthRange`, with bounds, shortest and longest, for each of B sentences of a batch."""

    def __init__(self, eos: int, bounds: Sequence[tuple[int, int]], device: torch.device) -> None:
        self.eos = eos
        self.shortest, self.longest = torch.tensor(bounds, device=device).unbind(1)  # B each

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> None:
        """See `StepRule`."""
        by_sentence = log_probs.view(hypotheses.count, -1, log_probs.size(1))  # N x M x W
        sentence, position = hypotheses.sentence, hypotheses.position
        by_sentence[position < self.shortest[sentence], :, self.eos] = -math.inf
        full = (position >= self.longest[sentence]).view(-1, 1, 1)
        by_sentence[..., : self.eos].masked_fill_(full, -math.inf)
        by_sentence[..., self.eos + 1 :].masked_fill_(full, -math.inf)
