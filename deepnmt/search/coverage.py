"""Coverage: the total attention that a hypothesis has paid to each source word, and penalties on uncovered words.

    cp_gnmt  = b sum_i log min(c_i, 1)                (Wu 2016, arXiv 1609.08144, equation 14)
    cp_floor = w sum_i log max(c_i, b)                (Li 2018, ACL, P18-2047)                         (25)

c_i sums the attention to source word i over all target positions, the end symbol included. The source's end symbol and
its padding do not count as words. Each target position distributes an attention of 1. A sum of logarithms is largest
where attention is spread evenly, so cp_floor also punishes repetition.

Shapes: N unfinished sentences of B in the batch; M hypotheses of each (1 in the first step, then the beam K); S source
positions.
"""

from dataclasses import dataclass
from typing import Optional, Protocol

import torch
from torch import Tensor

# Words with less attention count as this, since log 0 would hide all other words.
LEAST = 1e-6


class CoveragePenalty(Protocol):
    """Rates hypotheses by the attention of source words."""

    def __call__(self, received: Tensor) -> Tensor:
        """Return cp, ..., for c, ... x S."""


@dataclass(frozen=True)
class GnmtCoverage:
    """cp_gnmt of (25), with weight b: covering a word more than once costs nothing."""

    weight: float

    def __call__(self, received: Tensor) -> Tensor:
        """See `CoveragePenalty`."""
        return received.clamp(LEAST, 1.0).log().sum(-1) * self.weight


@dataclass(frozen=True)
class FloorCoverage:
    """cp_floor of (25), with weight w and floor b, the least value of a word."""

    weight: float
    floor: float

    def __call__(self, received: Tensor) -> Tensor:
        """See `CoveragePenalty`."""
        return received.clamp(min=max(self.floor, LEAST)).log().sum(-1) * self.weight


class Coverage:
    """The accumulated attention during the search of a batch, where the source has words, B x S.

    With `in_beam`, unfinished hypotheses are also compared by it.
    """

    def __init__(self, words: Tensor, in_beam: bool) -> None:
        self.words = words.unsqueeze(1).float()  # B x 1 x S
        self.in_beam = in_beam
        # Outside words 1, whose logarithm is 0.
        self.received: Optional[Tensor] = None  # N x M x S

    def add(self, attention: Tensor, sentence: Tensor, parents: Optional[Tensor]) -> None:
        """Add the attention of a step, N x M x S, for sentences by their numbers in the batch, N.

        The parents, N x K, are the hypotheses that each continues; None in the first step.
        """
        words = self.words[sentence]
        if self.received is None or parents is None:
            self.received = 1 - words
        else:
            self.received = self.received.gather(1, parents.unsqueeze(-1).expand(-1, -1, words.size(-1)))
        self.received = torch.addcmul(self.received, attention.float(), words)

    def keep(self, left: Tensor) -> None:
        """Continue with the sentences `left` alone."""
        if self.received is not None:
            self.received = self.received[left]
