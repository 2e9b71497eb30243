"""The output projection and the label-smoothed cross entropy in one, without ever holding the logits of a batch.

Shapes: N target positions, C channels, V types. Of the features h of a position, with the logits x = W h, the softmax
p, the target t, and fairseq's smoothing, which spreads e over the V - 1 other types, s = e / (V - 1):

    loss = (1 - e - s) (-log p_t) + s sum_v (-log p_v)

    dLoss/dx = p - s - (1 - e - s) [v = t]

The positions are taken some at a time: their logits, and at once the gradients of h and W, which is all that the
backward pass needs. What does not depend on p is added at the end, for all positions together. In half precision the
gradients wait for the backward pass, since there the loss is scaled to keep small ones from vanishing, and the logits
are made a second time.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Logits at a time: few enough for a cache, enough for fast products.
LOGITS = 2**22
# Below this, a probability has lost digits.
TINY = 1e-30


class Losses(NamedTuple):
    """Sums over the positions.

    Attributes:
        loss: label-smoothed, in nats
        nll: the same without smoothing, without a gradient
        correct: how often the target is the likeliest type; 0 unless it was asked for
    """

    loss: Tensor
    nll: Tensor
    correct: Tensor


def linear_cross_entropy(
    features: Tensor, weight: Tensor, target: Tensor, smoothing: float, accuracy: bool = False
) -> Losses:
    """The losses of `weight @ h` for all features h.

    Args:
        features: N x C
        weight: V x C
        target: N types, none of them padding
        smoothing: e
        accuracy: count the correct ones
    """
    gradients = torch.is_grad_enabled() and (features.requires_grad or weight.requires_grad)
    return Losses(
        *_LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
            features, weight, target, smoothing, accuracy, gradients
        )
    )


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, target: Tensor, smoothing: float, accuracy: bool, gradients: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.smoothing = smoothing
        ctx.now = gradients and features.dtype in (torch.float32, torch.float64)
        with torch.autocast(features.device.type, enabled=False):
            run = _Run(features, weight, target, smoothing)
            run.all(ctx.needs_input_grad[:2] if ctx.now else (False, False), accuracy=accuracy)
        if ctx.now:
            ctx.save_for_backward(run.to_features, run.to_weight)
        elif gradients:
            ctx.save_for_backward(features, weight, target)
        ctx.mark_non_differentiable(run.nll, run.correct)
        return run.loss, run.nll, run.correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Optional[Tensor], ...]:
        if ctx.now:
            found = [None if saved is None else saved * gradient for saved in ctx.saved_tensors]
        else:
            features, weight, target = ctx.saved_tensors
            run = _Run(features, weight, target, ctx.smoothing)
            run.all(ctx.needs_input_grad[:2], scale=gradient)
            found = [run.to_features, run.to_weight]
        return (*found, None, None, None, None)


class _Run:
    """One way through the positions.

    Args:
        features, weight, target, smoothing: as of `linear_cross_entropy`

    Attributes:
        loss, nll, correct: as of `Losses`
        to_features, to_weight: the gradients, N x C and V x C; None where they were not asked for
    """

    def __init__(self, features: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> None:
        self.features, self.weight, self.target = features, weight, target
        self.exact = torch.promote_types(features.dtype, torch.float32)
        self.other = smoothing / (len(weight) - 1)
        self.right = 1.0 - smoothing - self.other
        self.to_features: Optional[Tensor] = None
        self.to_weight: Optional[Tensor] = None

    def all(self, wanted: tuple[bool, bool], scale: Optional[Tensor] = None, accuracy: bool = False) -> None:
        """Find the losses, and the gradients of features and weight that are wanted, multiplied by `scale`."""
        types = len(self.weight)
        nll = self.features.new_empty(len(self.target), dtype=self.exact)
        hit = torch.empty_like(nll)  # the target's logit
        self.correct = self.target.new_zeros(())
        if wanted[0]:
            self.to_features = torch.empty_like(self.features, dtype=self.exact)
        if wanted[1]:
            self.to_weight = torch.zeros_like(self.weight, dtype=self.exact)
        rows = max(1, LOGITS // types)
        logits = self.features.new_empty(min(rows, len(nll)), types)
        # In one place, where both have one type.
        softmax = logits if logits.dtype == self.exact else torch.empty_like(logits, dtype=self.exact)
        for begin in range(0, len(nll), rows):
            some = slice(begin, begin + rows)
            features, target = self.features[some], self.target[some, None]
            x = torch.mm(features, self.weight.t(), out=logits[: len(features)])
            hit[some] = x.gather(1, target).squeeze(1)
            if accuracy:
                self.correct += x.argmax(1).eq(target.squeeze(1)).sum()
            p = torch.softmax(x, dim=1, dtype=self.exact, out=softmax[: len(features)])
            nll[some] = self._nll(features, p, target)
            if any(wanted):
                p.scatter_add_(1, target, p.new_tensor(-self.right).expand_as(target))
                self._add(some, features, p if scale is None else p.mul_(scale))

        log_sum = hit + nll  # of the exponentials of the logits
        column = self.weight.sum(0, dtype=self.exact)
        logit_sum = torch.mv(self.features.to(self.exact), column)
        self.nll = nll.sum()
        self.loss = self.right * self.nll + self.other * (types * log_sum - logit_sum).sum()
        spread = self.other if scale is None else self.other * scale
        if self.to_features is not None:
            self.to_features = self.to_features.sub_(spread * column).to(self.features.dtype)
        if self.to_weight is not None:
            row = self.features.sum(0, dtype=self.exact)
            self.to_weight = self.to_weight.sub_(spread * row).to(self.weight.dtype)

    def _nll(self, features: Tensor, p: Tensor, target: Tensor) -> Tensor:
        chosen = p.gather(1, target).squeeze(1)
        result = -chosen.log()
        lost = chosen < TINY
        if lost.any():
            x = torch.mm(features[lost], self.weight.t())
            result[lost] = -torch.log_softmax(x, dim=1, dtype=self.exact).gather(1, target[lost]).squeeze(1)
        return result

    def _add(self, some: slice, features: Tensor, gradient: Tensor) -> None:
        """Add what the gradient of some logits, n x V, gives."""
        gradient = gradient.to(self.features.dtype)
        if self.to_features is not None:
            if self.to_features.dtype == gradient.dtype:
                torch.mm(gradient, self.weight, out=self.to_features[some])
            else:
                self.to_features[some] = torch.mm(gradient, self.weight)
        if self.to_weight is not None:
            if self.to_weight.dtype == gradient.dtype:
                self.to_weight.addmm_(gradient.t(), features)
            else:
                self.to_weight += torch.mm(gradient.t(), features)
