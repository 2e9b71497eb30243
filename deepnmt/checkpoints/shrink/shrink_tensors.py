"""The weights W of a shallower stack, by the plans of `shrink_plan.py`.

Shapes: G groups of layers, S slices of the channels; W is (G + 1) x (G + 1) x S, row g at index g - 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from deepnmt.checkpoints.plans import HistoryPlan, Oldest
from deepnmt.checkpoints.shrink.shrink_plan import gathered
from deepnmt.checkpoints.tensors import UNREAD_LOGIT


def shrink_weight(weight: Tensor, plan: HistoryPlan, oldest: Oldest, softmax: bool) -> Tensor:
    """Return the new W, of the type of the old one; a row does not read what its window reaches only now.

    Args:
        weight: the old W
        plan: what is kept
        oldest: the oldest output that a row reads, in both stacks
        softmax: W holds logits, and a row is normalised by a softmax: it is the normalised weights that are added up
    """
    size = len(plan.rows)
    wide = weight.to(torch.promote_types(weight.dtype, torch.float32))
    result = wide.new_zeros(size, size, weight.size(2))
    for row, source in enumerate(plan.rows, start=1):
        assert source is not None
        old = wide[source - 1]
        for column, outputs in gathered(plan, row, oldest).items():
            if outputs and softmax:
                result[row - 1, column] = old[outputs].logsumexp(dim=0)
            elif outputs:
                result[row - 1, column] = old[outputs].sum(dim=0)
            elif softmax:
                result[row - 1, column] = old[oldest(source) : source].amax(dim=0) - UNREAD_LOGIT
    return result.to(weight.dtype)
