"""A layer norm whose backward pass needs its output alone, for outputs that are kept anyway.

    z = (x - mean) * r * gain + bias,  r = 1 / sqrt(variance + epsilon)

The gradients depend on the input only through `x - mean`, which is `(z - bias) / gain / r`. A history keeps the outputs
for its sums; keeping the inputs too would add one tensor per layer.
"""

from collections.abc import Callable
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from deepnmt.kernels.fast_path import EXACT, may_take

# Rounding of z, divided by the gain, must stay near the normalised input's: the bias must not dwarf the gain.
LARGEST_BIAS = 16.0


def reference(x: Tensor, gain: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """Return z by the formula above, for readers and tests; autograd makes its backward pass."""
    centred = x - x.mean(-1, keepdim=True)
    r = (centred.square().mean(-1, keepdim=True) + epsilon).rsqrt()
    return centred * r * gain + bias


class OutputNorm(nn.LayerNorm):
    """`nn.LayerNorm` over the last axis, with less memory on the CPU; parameters and result are the same.

    In half precision and on other devices the input is kept, and also if a gain is close to zero.
    """

    def forward(self, x: Tensor, place: Optional[Callable[[], Tensor]] = None) -> Tensor:
        """The norm of x, ... x C.

        Args:
            x: the input
            place: gives memory of the input's shape for the output. Using it is optional. It is not written to again
                before the backward pass
        """
        if not torch.is_grad_enabled() or not may_take("memory-saving layer norm", self.obstacle(x)):
            return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        # A hook may pass on another tensor than this output.
        memory = place() if place is not None and not self._forward_hooks else None
        result: Tensor = _OutputNorm.apply(x, self.weight, self.bias, self.eps, memory)  # type: ignore[no-untyped-call]
        return result

    def obstacle(self, x: Tensor) -> Optional[str]:
        """Return the reason why the input must be kept, or None."""
        if x.device.type != "cpu" or x.dtype not in EXACT or x.dtype != self.weight.dtype:
            return "it is for the CPU, without half precision"
        if not bool((self.bias.detach().abs() < LARGEST_BIAS * self.weight.detach().abs()).all()):
            return "a gain is close to zero"
        return None


class _OutputNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float, memory: Optional[Tensor]) -> Tensor:
        output, _, scale = torch.native_layer_norm(x, weight.shape, weight, bias, epsilon)
        if memory is not None:
            output = memory.copy_(output)
        ctx.save_for_backward(output, scale, weight, bias)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Optional[Tensor], ...]:
        output, scale, weight, bias = ctx.saved_tensors
        centred = torch.addcmul(-bias / weight, output, weight.reciprocal()).div_(scale)
        gradients = torch.ops.aten.native_layer_norm_backward(
            gradient, centred, weight.shape, torch.zeros_like(scale), scale, weight, bias, ctx.needs_input_grad[:3]
        )
        return (*gradients, None, None)
