"""Checkpoints of trainings in half precision also hold the FP32 master weights, to which the updates are added.

Beside these they hold the counts that adapt the loss scale.
"""

from collections.abc import Mapping
from typing import Any

import torch
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin, _MemoryEfficientFP16OptimizerMixin
from torch import Tensor

from deepnmt.checkpoints.contents import FULL_PRECISION, LOSS_SCALER
from deepnmt.fairseq_patches.patch import replaces

# The counts of fairseq's scaler, which decide when to raise the scale.
COUNTS = ("_iter", "_last_overflow_iter", "_last_rescale_iter", "_overflows_since_rescale")
# The state of torch's scaler that is no setting.
SCALE, GROWTH = "scale", "_growth_tracker"


@replaces(
    _FP16OptimizerMixin, "state_dict", order=10, why="checkpoints of --fp16 and --bf16 lack the FP32 master weights"
)
def save_weights(stock: Any, self: Any) -> dict[str, Any]:
    """Put the FP32 master weights beside the optimizer's state."""
    return {**stock(self), FULL_PRECISION: [tensor.data for tensor in _copies(self)]}


@replaces(_FP16OptimizerMixin, "load_state_dict", order=10, why="a resumed training rounds its weights")
def restore_weights(stock: Any, self: Any, state_dict: Mapping[str, Any], optimizer_overrides: Any = None) -> None:
    """Load, and take over the FP32 master weights; without them, take the model's rounded weights."""
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


@replaces(_FP16OptimizerMixin, "state_dict", order=20, why="checkpoints lack the loss scaler's counts")
@replaces(_MemoryEfficientFP16OptimizerMixin, "state_dict", order=20, why="checkpoints lack the loss scaler's counts")
def save_counts(stock: Any, self: Any) -> dict[str, Any]:
    """Put the scaler's counts beside the scale."""
    state: dict[str, Any] = stock(self)
    return state if self.scaler is None else {**state, LOSS_SCALER: [getattr(self.scaler, name) for name in COUNTS]}


@replaces(_FP16OptimizerMixin, "load_state_dict", order=20, why="a resumed training raises its scale late")
@replaces(
    _MemoryEfficientFP16OptimizerMixin, "load_state_dict", order=20, why="a resumed training raises its scale late"
)
def restore_counts(stock: Any, self: Any, state_dict: Mapping[str, Any], optimizer_overrides: Any = None) -> None:
    """Continue the counts; without them, and of another kind of scaler, they begin anew."""
    stock(self, {key: value for key, value in state_dict.items() if key != LOSS_SCALER}, optimizer_overrides)
    counts = state_dict.get(LOSS_SCALER, [])
    if self.scaler is not None and len(counts) == len(COUNTS):
        for name, count in zip(COUNTS, counts):
            setattr(self.scaler, name, count)


@replaces(AMPOptimizer, "state_dict", order=10, why="checkpoints of --amp lack the loss scale")
def save_scale(stock: Any, self: Any) -> dict[str, Any]:
    """Put the scale, and the updates since it changed, beside the optimizer's state."""
    state, scaler = stock(self), self.scaler.state_dict()
    # Where there is no GPU, it scales nothing.
    return {**state, LOSS_SCALER: [scaler[SCALE], scaler[GROWTH]]} if scaler else state


@replaces(AMPOptimizer, "load_state_dict", order=10, why="a resumed training in --amp loses its loss scale")
def restore_scale(stock: Any, self: Any, state_dict: Mapping[str, Any], optimizer_overrides: Any = None) -> None:
    """Continue with the scale; without it, and of another kind of scaler, it begins anew."""
    stock(self, {key: value for key, value in state_dict.items() if key != LOSS_SCALER}, optimizer_overrides)
    kept, scaler = state_dict.get(LOSS_SCALER, []), self.scaler.state_dict()
    if scaler and len(kept) == 2:
        self.scaler.load_state_dict({**scaler, SCALE: float(kept[0]), GROWTH: int(kept[1])})


def _copies(optimizer: Any) -> list[Tensor]:
    """Return the FP32 copy: a tensor for each parameter, or one of all for each device."""
    return list(optimizer.fp32_params.values() if optimizer.has_flat_params else optimizer.fp32_params)


def _rounds_to(weights: Tensor, parameter: Tensor) -> bool:
    return torch.equal(weights.to(parameter.data).view_as(parameter), parameter.data)
