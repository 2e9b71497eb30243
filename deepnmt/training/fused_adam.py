"""fairseq's Adam with the kernel of `deepnmt/kernels/adam.py`; state and checkpoints are fairseq's."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Optional

import torch
from fairseq.optim.adam import Adam
from torch import Tensor

from deepnmt.kernels.adam import obstacle, update
from deepnmt.kernels.fast_path import may_take


class FusedAdam(Adam):  # type: ignore[misc]
    """fairseq's optimizer; fairseq's own code handles half precision and AMSGrad, which the kernel lacks."""

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
                update(
                    parameters,
                    [self.state[parameter]["exp_avg"] for parameter in parameters],
                    [self.state[parameter]["exp_avg_sq"] for parameter in parameters],
                    step,
                    group["lr"],
                    group["betas"],
                    group["eps"],
                    group["weight_decay"],
                )
        return loss
