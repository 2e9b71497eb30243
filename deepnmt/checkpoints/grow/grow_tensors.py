"""The weights W of a deeper stack, by the plans of `grow_plan.py`.

Shapes: G groups of layers, S slices of the channels; W is (G + 1) x (G + 1) x S, row g at index g - 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from deepnmt.checkpoints.plans import HistoryPlan, Oldest
from deepnmt.checkpoints.tensors import UNREAD_LOGIT


def kept_weight(weight: Tensor, plan: HistoryPlan, oldest: Oldest) -> Tensor:
    """Return the new W, in single precision at least: old rows and columns in their new places, and zero elsewhere.

    Args:
        weight: the old W
        plan: how the connections change
        oldest: the oldest output that a row reads, in both stacks
    """
    size = len(plan.rows)
    result = weight.new_zeros(size, size, weight.size(2), dtype=torch.promote_types(weight.dtype, torch.float32))
    for row, source in enumerate(plan.rows, start=1):
        for new, old in plan.reads(row, oldest).items():
            assert source is not None
            result[row - 1, new] = weight[source - 1, old]
    return result


def grow_weight(weight: Tensor, plan: HistoryPlan, oldest: Oldest, softmax: bool, chained: bool = False) -> Tensor:
    """Return the new W, of the type of the old one.

    Args:
        weight: the old W
        plan: how the connections change
        oldest: the oldest output that a row reads, in both stacks
        softmax: a row is normalised by a softmax
        chained: a new row reads the newest output alone, instead of the mean of all
    """
    result = kept_weight(weight, plan, oldest)
    for row, source in enumerate(plan.rows, start=1):
        first = oldest(row)
        if source is not None:
            if softmax:
                largest = weight[source - 1, oldest(source) : source].to(result.dtype).amax(dim=0)
                unread = [column for column in range(first, row) if column not in plan.reads(row, oldest)]
                result[row - 1, unread] = largest - UNREAD_LOGIT
        elif chained:
            result[row - 1, first:row] = -UNREAD_LOGIT if softmax else 0.0
            result[row - 1, row - 1] = 0.0 if softmax else 1.0
        else:
            result[row - 1, first:row] = 0.0 if softmax else 1.0 / (row - first)
    return result.to(weight.dtype)
