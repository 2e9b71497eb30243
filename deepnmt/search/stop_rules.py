"""When the search of a sentence is done, and which hypotheses are not worth continuing.

Shapes: N sentences still in the search, of B in the batch; K hypotheses of each; n candidates.
"""

import math
from dataclasses import dataclass
from typing import Optional, Protocol

from torch import Tensor

from deepnmt.search.candidates import Candidates
from deepnmt.search.hypotheses import Hypotheses


class StopRule(Protocol):
    """Decides which sentences are done, besides those whose hypotheses must not become longer.

    Attributes:
        at_most: finished hypotheses that a sentence may have; None: the search keeps all, and returns the K best
    """

    @property
    def at_most(self) -> Optional[int]:
        """See above."""

    def __call__(self, hypotheses: Hypotheses, candidates: Candidates, ending: Tensor) -> Optional[Tensor]:
        """Return the finished sentences, N; None: no sentence.

        Args:
            hypotheses: including the hypotheses that have just finished
            candidates: of the step; to drop some, a rule sets their sums to -inf
            ending: which candidates end their hypotheses, or must not be taken, N x n
        """


@dataclass(frozen=True)
class BeamFinished:
    """K hypotheses are finished: fairseq's rule."""

    at_most: int

    def __call__(self, hypotheses: Hypotheses, candidates: Candidates, ending: Tensor) -> Optional[Tensor]:
        """See `StopRule`."""
        return hypotheses.finished >= self.at_most if hypotheses.some_ended else None


@dataclass(frozen=True)
class BestEnds:
    """The best candidate of a step ends its hypothesis: the rule of OpenNMT and Sockeye."""

    at_most: None = None

    def __call__(self, hypotheses: Hypotheses, candidates: Candidates, ending: Tensor) -> Optional[Tensor]:
        """See `StopRule`."""
        return ending[:, 0] if hypotheses.some_ended else None


@dataclass(frozen=True)
class NothingBetter:
    """No continuation can have a better score than the best finished hypothesis (Huang 2017, arXiv 1809.00069).

    log P never rises, and lp does not fall with the length. If cp is never positive, a continuation's score is
    therefore at most its present log P over the lp of the greatest length.

    Args:
        largest_penalty: lp of the greatest allowed length, B
    """

    largest_penalty: Tensor
    at_most: None = None

    def __call__(self, hypotheses: Hypotheses, candidates: Candidates, ending: Tensor) -> Optional[Tensor]:
        """See `StopRule`."""
        active = candidates.sums.masked_fill(ending, -math.inf).amax(1)
        return hypotheses.best_score >= active / self.largest_penalty[hypotheses.sentence]


@dataclass(frozen=True)
class PruneGap:
    """Drops candidates far behind the best finished hypothesis (Wu 2016, arXiv 1609.08144, section 7).

    Candidates are dropped from this score gap on; `stop` decides in addition.
    """

    gap: float
    stop: StopRule

    @property
    def at_most(self) -> Optional[int]:
        """See `StopRule`."""
        return self.stop.at_most

    def __call__(self, hypotheses: Hypotheses, candidates: Candidates, ending: Tensor) -> Optional[Tensor]:
        """See `StopRule`; sentences without remaining candidates are finished."""
        least = (hypotheses.best_score - self.gap).unsqueeze(-1)
        candidates.sums.masked_fill_((hypotheses.scores(candidates) < least) & ~ending, -math.inf)
        nothing_left = (candidates.sums.eq(-math.inf) | ending).all(1)
        done = self.stop(hypotheses, candidates, ending)
        return nothing_left if done is None else nothing_left | done
