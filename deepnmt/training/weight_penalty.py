"""`--l1` and `--l2`: a penalty on the size of the weights.

    L + l1 sum |w| + l2 sum w^2                                                                                (56)

over all trained matrices, embeddings included, once per update; L is the loss per token. A criterion's loss is a sum,
and fairseq divides the gradient of an update by the sum of its sample sizes. Each batch therefore gets the penalty as
often as its sample size. fairseq's --weight-decay is another rule: it does not pass through Adam's moments.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

# A criterion of fairseq's: loss, sample size and log of a batch.
Loss = Callable[..., tuple[Any, Any, Any]]


def penalty(model: nn.Module, l1: float, l2: float) -> Tensor:
    """Return the penalty of a model's matrices, in float32 at least."""
    total = torch.zeros((), device=next(model.parameters()).device)
    for weight in model.parameters():
        if weight.requires_grad and weight.dim() >= 2:
            exact = weight.to(torch.promote_types(weight.dtype, torch.float32))
            if l1:
                total = total + l1 * exact.abs().sum()
            if l2:
                total = total + l2 * exact.square().sum()
    return total


def penalised(criterion: Loss, l1: float, l2: float) -> Loss:
    """Return a criterion whose loss has the penalty; its log has the loss without it."""

    def with_penalty(model: nn.Module, sample: Any) -> tuple[Any, Any, Any]:
        loss, size, log = criterion(model, sample)
        return loss + size * penalty(model, l1, l2), size, log

    return with_penalty
