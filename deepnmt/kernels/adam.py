"""fairseq's Adam in one pass over the memory.

fairseq's own goes over parameter, gradient and both means a dozen times. torch has a kernel for all of it, of another
formula: with the means m and v, corrected by c1 = 1 - beta1^t and c2 = 1 - beta2^t,

    fairseq   p -= lr sqrt(c2) / c1 * m / (sqrt(v) + e)
    torch     p -= lr / c1 * m / (sqrt(v) / sqrt(c2) + e)

The one is the other with e / sqrt(c2) for e. Both take the weight decay off first, p -= lr decay p (Loshchilov 2019,
ICLR, arXiv 1711.05101). The state is fairseq's, and so are its checkpoints.
"""

import math
from typing import Any, Optional

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from deepnmt.kernels.fast_path import EXACT


def reference(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int, lr: float, betas: tuple[float, float], e: float, decay: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return parameter and means after update t, by fairseq's formula above, for readers and tests."""
    m = betas[0] * m + (1 - betas[0]) * g
    v = betas[1] * v + (1 - betas[1]) * g.square()
    c1, c2 = 1 - betas[0] ** t, 1 - betas[1] ** t
    return p - lr * decay * p - lr * math.sqrt(c2) / c1 * m / (v.sqrt() + e), m, v


@torch.no_grad()
def update(
    parameters: list[Tensor],
    means: list[Tensor],
    squares: list[Tensor],
    step: int,
    lr: float,
    betas: tuple[float, float],
    epsilon: float,
    decay: float,
) -> None:
    """Update parameters p that have gradients, and their means m and v, in place, at step t from 1.

    `epsilon` is fairseq's e, and `decay` the weight decay.
    """
    adamw(
        parameters,
        [parameter.grad for parameter in parameters if parameter.grad is not None],
        means,
        squares,
        [],
        # One tensor for all: a copy from the host for each would wait for the GPU each time.
        list(torch.full((len(parameters),), step - 1.0, device=parameters[0].device).unbind()),
        fused=True,
        amsgrad=False,
        beta1=betas[0],
        beta2=betas[1],
        lr=lr,
        weight_decay=decay,
        eps=epsilon / math.sqrt(1 - betas[1] ** step),
        maximize=False,
    )


def obstacle(groups: list[dict[str, Any]]) -> Optional[str]:
    """Return the reason why the kernel cannot update these parameters, or None."""
    for group in groups:
        if group.get("amsgrad"):
            return "AMSGrad is on"
        for parameter in group["params"]:
            if parameter.dtype not in EXACT:
                return "the optimizer's parameters are in half precision"
            if parameter.device.type not in ("cpu", "cuda"):
                return "the parameters are neither on the CPU nor on CUDA"
            if parameter.grad is not None and parameter.grad.layout != torch.strided:
                return "a gradient is sparse"
    return None
