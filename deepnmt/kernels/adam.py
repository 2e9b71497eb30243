"""fairseq's Adam in one pass over the memory.

fairseq's own goes over parameter, gradient and both means a dozen times. torch has a kernel for all of it, of another
formula: with the means m and v, corrected by c1 = 1 - beta1^t and c2 = 1 - beta2^t,

    fairseq   p -= lr sqrt(c2) / c1 * m / (sqrt(v) + e)
    torch     p -= lr / c1 * m / (sqrt(v) / sqrt(c2) + e)

The one is the other with e / sqrt(c2) for e. Both take the weight decay off first, p -= lr decay p (Loshchilov 2019,
ICLR, arXiv 1711.05101). The state is fairseq's, and so are its checkpoints.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any, Callable, Optional

import torch
from fairseq.optim.adam import Adam
from torch import Tensor
from torch.optim.adamw import adamw

from deepnmt.kernels.fast_path import EXACT, may_take


def reference(
    p: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int, lr: float, betas: tuple[float, float], e: float, decay: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return parameter and means after update t, by fairseq's formula above, for readers and tests."""
    m = betas[0] * m + (1 - betas[0]) * g
    v = betas[1] * v + (1 - betas[1]) * g.square()
    c1, c2 = 1 - betas[0] ** t, 1 - betas[1] ** t
    return p - lr * decay * p - lr * math.sqrt(c2) / c1 * m / (v.sqrt() + e), m, v


class FusedAdam(Adam):  # type: ignore[misc]
    """fairseq's optimizer; what the kernel does not know (half precision, AMSGrad) takes fairseq's way."""

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Update the parameters that have gradients."""
        if not may_take("fast Adam", obstacle(self.param_groups)):
            return super().step(closure)
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            alike: dict[int, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self.state[parameter]
                    if not state:
                        state.update(step=0)
                        state.update({name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")})
                    state["step"] += 1
                    alike[state["step"]].append(parameter)
            for step, parameters in alike.items():
                self._update(group, parameters, step)
        return loss

    @torch.no_grad()
    def _update(self, group: dict[str, Any], parameters: list[Tensor], step: int) -> None:
        beta1, beta2 = group["betas"]
        adamw(
            parameters,
            [parameter.grad for parameter in parameters if parameter.grad is not None],
            [self.state[parameter]["exp_avg"] for parameter in parameters],
            [self.state[parameter]["exp_avg_sq"] for parameter in parameters],
            [],
            # One tensor for all: a copy from the host for each would wait for the GPU each time.
            list(torch.full((len(parameters),), step - 1.0, device=parameters[0].device).unbind()),
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"] / math.sqrt(1 - beta2**step),
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
