"""Checkpoints of trainings in half precision hold the weights that the updates are added to, in FP32, as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin
from torch import Tensor

from deepnmt.checkpoints.contents import FULL_PRECISION
from deepnmt.fairseq_patches.patch import replaces


@replaces(
    _FP16OptimizerMixin,
    "state_dict",
    "(self)",
    order=10,
    why="checkpoints of --fp16 and --bf16 hold the weights in FP32, too, beside the optimizer's state",
)
def save_weights(stock: Any, self: Any) -> dict[str, Any]:
    """Put the FP32 copy of the weights beside what the optimizer keeps."""
    return {**stock(self), FULL_PRECISION: [tensor.data for tensor in _copies(self)]}


@replaces(
    _FP16OptimizerMixin,
    "load_state_dict",
    "(self, state_dict, optimizer_overrides=None)",
    order=10,
    why="a resumed training in --fp16 or --bf16 continues with the weights in FP32, not with rounded ones",
)
def restore_weights(stock: Any, self: Any, state_dict: Mapping[str, Any], optimizer_overrides: Any = None) -> None:
    """Load, and take over the FP32 weights of which the model's are the roundings; else those are what counts."""
    stock(self, {key: value for key, value in state_dict.items() if key != FULL_PRECISION}, optimizer_overrides)
    saved = state_dict.get(FULL_PRECISION)
    if not saved or sum(tensor.numel() for tensor in saved) != sum(own.numel() for own in self.fp16_params):
        return
    # End to end: flat gradients have one tensor for all parameters, and one may resume without them.
    weights = torch.cat([tensor.reshape(-1) for tensor in saved])
    if all(map(_rounds_to, torch.split(weights, [own.numel() for own in self.fp16_params]), self.fp16_params)):
        own = _copies(self)
        for copy, part in zip(own, torch.split(weights, [copy.numel() for copy in own])):
            copy.data.copy_(part.view_as(copy))


def _copies(optimizer: Any) -> list[Tensor]:
    """Return the FP32 copy: a tensor for each parameter, or one of all for each device."""
    return list(optimizer.fp32_params.values() if optimizer.has_flat_params else optimizer.fp32_params)


def _rounds_to(weights: Tensor, parameter: Tensor) -> bool:
    return torch.equal(weights.to(parameter.data).view_as(parameter), parameter.data)
