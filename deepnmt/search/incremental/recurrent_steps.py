"""Recurrences in place of self-attention, at the newest position of a beam search.

Twins: deepnmt/model/ssru.py, deepnmt/model/average_attention.py

Shapes: N sentences of M hypotheses, rows MN, hypothesis-major; C channels.
"""

from typing import Any

import torch
from torch import Tensor

from deepnmt.model.average_attention import AverageAttention
from deepnmt.model.ssru import SSRU
from deepnmt.search.incremental.attention_steps import Carried, Step
from deepnmt.search.incremental.maps import Maps


class SSRUSteps(Carried):
    """A layer's SSRU, equation (45): c is carried."""

    def __init__(self, module: Any, maps: Maps) -> None:
        self.gates_values = maps(module.forget_proj, module.v_proj)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return the sublayer's function of the newest position, MN x C."""
        both, before = self.gates_values(x), self.of_parents(step)
        gates, values = both.to(torch.promote_types(both.dtype, torch.float32)).chunk(2, dim=1)
        gates = gates.sigmoid()
        means = torch.lerp(values, torch.zeros_like(values) if before is None else before, gates)
        self.take(means, step)
        return means.relu().type_as(x)


class AverageAttentionSteps(Carried):
    """A layer's average attention, equation (46): a sum is carried."""

    def __init__(self, module: Any, maps: Maps) -> None:
        self.gates = maps(module.gate_proj)
        self.inner = None if module.fc1 is None else (maps(module.fc1), maps(module.fc2))

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return the sublayer's function of the newest position, MN x C."""
        mean = (self.add(x, step) / (step.position + 1)).type_as(x)
        if self.inner is not None:
            first, second = self.inner
            mean = second(first(mean).relu_())
        of_input, of_mean = self.gates(torch.cat([x, mean], dim=1)).sigmoid_().chunk(2, dim=1)
        return (of_input * x).addcmul_(of_mean, mean)


# By the modules that they compute.
RECURRENT_STEPS: dict[type, type[AverageAttentionSteps | SSRUSteps]] = {
    AverageAttention: AverageAttentionSteps,
    SSRU: SSRUSteps,
}
