"""The feed-forward sublayer on the CPU, as one node of the graph.

    ReLU(x W1' + b1) W2' + b2                                                      (Vaswani 2017, NIPS, equation 2)

The ReLU and its gradient are computed in place, and biases are added after the products. Each pass thus writes only one
tensor of positions x inner channels.
"""

from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from deepnmt.kernels.fast_path import linear_obstacle
from deepnmt.kernels.products import mm


def reference(x: Tensor, inner: nn.Linear, outer: nn.Linear) -> Tensor:
    """Return the formula above, for readers and tests; autograd makes its backward pass."""
    return outer(inner(x).relu())  # type: ignore[no-any-return]


def feed_forward(x: Tensor, inner: nn.Linear, outer: nn.Linear) -> Tensor:
    """Return the sublayer's function of x, ... x C; to be called where `obstacle` returns None."""
    result: Tensor = _FeedForward.apply(  # type: ignore[no-untyped-call]
        x, inner.weight, inner.bias, outer.weight, outer.bias
    )
    return result


def obstacle(x: Tensor, inner: nn.Module, outer: nn.Module) -> Optional[str]:
    """Return the reason why `feed_forward` cannot take these maps, or None."""
    if x.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return "it is for the CPU, without autocast"
    return linear_obstacle(inner) or linear_obstacle(outer)


class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        rows = x.reshape(-1, x.size(-1))
        inner = mm(rows, w1.t()).add_(b1).relu_()
        ctx.save_for_backward(rows, w1, w2, inner)
        return mm(inner, w2.t()).add_(b2).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Optional[Tensor], ...]:
        rows, w1, w2, inner = ctx.saved_tensors
        shape = gradient.shape
        gradient = gradient.reshape(-1, shape[-1])
        to_inner = mm(gradient, w2)
        torch.ops.aten.threshold_backward.grad_input(to_inner, inner, 0, grad_input=to_inner)
        return (
            mm(to_inner, w1).view(*shape[:-1], -1),
            mm(to_inner.t(), rows),
            to_inner.sum(0),
            mm(gradient.t(), inner),
            gradient.sum(0),
        )
