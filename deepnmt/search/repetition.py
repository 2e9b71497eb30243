"""No n-gram twice in a translation: fairseq's --no-repeat-ngram-size.

A type is forbidden where it would complete n consecutive tokens that the translation already contains. The token before
the first one does not belong to the translation. A hypothesis without another continuation, as in a given prefix, goes
on. fairseq 0.12.3 compares with the padding behind a hypothesis, and so forbids nothing (its issue 5206).

Shapes: R hypotheses of P tokens; W columns of types.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from deepnmt.search.hypotheses import Hypotheses


def forbid_repeats(log_probs: Tensor, tokens: Tensor, size: int) -> None:
    """Forbid, in the log-probabilities of the next token, R x W, the types that would repeat an n-gram, in place.

    The tokens of each hypothesis, R x P, are without the one before the first; n is `size`.
    """
    if tokens.size(1) < size:
        return
    ngrams = tokens.unfold(1, size, 1)  # R x (P - n + 1) x n
    newest = tokens[:, tokens.size(1) - size + 1 :]  # R x (n - 1)
    row, place = (ngrams[..., :-1] == newest.unsqueeze(1)).all(-1).nonzero(as_tuple=True)
    repeats = torch.zeros_like(log_probs, dtype=torch.bool)
    repeats[row, ngrams[row, place, -1]] = True
    others = (log_probs.ne(-math.inf) & ~repeats).any(1, keepdim=True)
    log_probs.masked_fill_(repeats & others, -math.inf)


@dataclass(frozen=True)
class NoRepeats:
    """The same as a step rule of the package's search, for n-grams of a size."""

    size: int

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> None:
        """See `StepRule`."""
        forbid_repeats(log_probs, hypotheses.strings(), self.size)
