"""Two passes of a batch compared: label-smoothed losses and divergences, without ever holding all logits.

Shapes: N target positions, C channels, V types; two passes.

Pass i has features h_i, logits x_i = W h_i, softmax p_i, and the label-smoothed loss L_i of `linear_cross_entropy.py`.
D = log p_1 - log p_2. At each position

    loss = a_1 L_1 + a_2 L_2 + b_1 KL_1 + b_2 KL_2,   KL_1 = sum_v p_1 D,   KL_2 = -sum_v p_2 D

    dKL_1/dx_1 = p_1 (D - KL_1)      dKL_1/dx_2 = p_2 - p_1
    dKL_2/dx_2 = p_2 (-D - KL_2)     dKL_2/dx_1 = p_1 - p_2

As in that module, the logits of some positions of both passes are made together, and gradients at once.
"""

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepnmt.kernels import linear_cross_entropy
from deepnmt.kernels.products import mm
from deepnmt.kernels.projection import ProjectionGradients, pieces

Pair = tuple[float, float]


class Coefficients(NamedTuple):
    """The loss: a_1, a_2 and b_1, b_2."""

    nll: Pair
    kl: Pair


class ConsistencyLosses(NamedTuple):
    """Sums over the positions, in nats.

    Attributes:
        loss: as above
        nll: of each pass, without smoothing, 2; without a gradient, like the next ones
        kl: KL_1 and KL_2
        correct: how often the target is the likeliest type of the first pass; 0 unless requested
    """

    loss: Tensor
    nll: Tensor
    kl: Tensor
    correct: Tensor


def reference(h: Tensor, W: Tensor, target: Tensor, e: float, coefficients: Coefficients) -> Tensor:
    """Return the sum of the losses by the formula above, for readers and tests; autograd makes its backward pass."""
    (a, b), (h_1, h_2) = coefficients, h.chunk(2)
    log_p_1, log_p_2 = (h_1 @ W.t()).log_softmax(-1), (h_2 @ W.t()).log_softmax(-1)
    D = log_p_1 - log_p_2
    kl_1, kl_2 = (log_p_1.exp() * D).sum(), -(log_p_2.exp() * D).sum()
    losses = [linear_cross_entropy.reference(h_i, W, target, e) for h_i in (h_1, h_2)]
    return a[0] * losses[0] + a[1] * losses[1] + b[0] * kl_1 + b[1] * kl_2


def linear_consistency(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    smoothing: float,
    coefficients: Coefficients,
    accuracy: bool = False,
) -> ConsistencyLosses:
    """Return the losses of `weight @ h` for all features h.

    Args:
        features: of the first pass, followed by the second pass, 2N x C
        weight: V x C
        target: N types, none of them padding
        smoothing: e
        coefficients: of the loss
        accuracy: count the correct ones
    """
    device = features.device.type
    if torch.is_autocast_enabled(device):
        half = torch.get_autocast_dtype(device)
        features, weight = features.to(half), weight.to(half)
    gradients = torch.is_grad_enabled() and (features.requires_grad or weight.requires_grad)
    settings = _Settings(target, smoothing, coefficients, accuracy, gradients)
    return ConsistencyLosses(*_LinearConsistency.apply(features, weight, settings))  # type: ignore[no-untyped-call]


class _Settings(NamedTuple):
    target: Tensor
    smoothing: float
    coefficients: Coefficients
    accuracy: bool
    gradients: bool


class _LinearConsistency(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, settings: _Settings
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.settings = settings
        # In half precision the loss is scaled in the backward pass, which keeps small gradients from vanishing.
        ctx.now = settings.gradients and features.dtype in (torch.float32, torch.float64)
        with torch.autocast(features.device.type, enabled=False):
            run = _Run(features, weight, settings)
            run.all(ctx.needs_input_grad[:2] if ctx.now else (False, False))
        if ctx.now:
            ctx.save_for_backward(*run.gradients)
        elif settings.gradients:
            ctx.save_for_backward(features, weight)
        ctx.mark_non_differentiable(run.nll, run.kl, run.correct)
        return run.loss, run.nll, run.kl, run.correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Optional[Tensor], ...]:
        if ctx.now:
            found = tuple(None if saved is None else saved * gradient for saved in ctx.saved_tensors)
        else:
            features, weight = ctx.saved_tensors
            run = _Run(features, weight, ctx.settings._replace(accuracy=False))
            run.all(ctx.needs_input_grad[:2], scale=gradient)
            found = run.gradients
        return (*found, None)


class _Run:
    """One way through the positions.

    Attributes:
        loss, nll, kl, correct: as of `ConsistencyLosses`
        gradients: of features and weight, 2N x C and V x C; None where they were not asked for
    """

    def __init__(self, features: Tensor, weight: Tensor, settings: _Settings) -> None:
        self.features, self.weight, self.settings = features, weight, settings
        self.exact = torch.promote_types(features.dtype, torch.float32)
        self.other = settings.smoothing / (len(weight) - 1)
        self.right = 1.0 - settings.smoothing - self.other

    def all(self, wanted: tuple[bool, bool], scale: Optional[Tensor] = None) -> None:
        """Find the losses, and the gradients of features and weight that are wanted, multiplied by `scale`."""
        target, (a, b) = self.settings.target, self.settings.coefficients
        count, types = len(target), len(self.weight)
        nll = self.features.new_empty(2, count, dtype=self.exact)
        log_sum, kl = torch.empty_like(nll), torch.empty_like(nll)
        self.correct = target.new_zeros(())
        gradients = ProjectionGradients(self.features, self.weight, wanted)
        # Two passes, and beside the logits the probabilities.
        for some in pieces(count, 4 * types, self.features.device):
            passes = [slice(begin + some.start, begin + some.stop) for begin in (0, count)]
            chosen = target[some, None]
            x, p = zip(*(self._logits(self.features[each]) for each in passes))
            for i in range(2):
                # The largest are never too small for a logarithm.
                largest, log_p = x[i].amax(1, keepdim=True), p[i].amax(1, keepdim=True).log_()
                nll[i, some] = (largest - x[i].gather(1, chosen) - log_p).squeeze(1)
                log_sum[i, some] = (largest - log_p).squeeze(1)
            if self.settings.accuracy:
                self.correct += x[0].argmax(1).eq(chosen.squeeze(1)).sum()
            shift = (log_sum[0, some] - log_sum[1, some]).unsqueeze(1)
            difference, memory = x[0].sub_(x[1]).sub_(shift), x[1]  # D
            torch.sum(torch.mul(p[0], difference, out=memory), dim=1, out=kl[0, some])
            torch.sum(torch.mul(p[1], difference, out=memory), dim=1, out=kl[1, some]).neg_()
            if any(wanted):
                constants = [a[0] + b[1] - b[0] * kl[0, some], a[1] + b[0] - b[1] * kl[1, some]]
                first = torch.add(constants[0].unsqueeze(1), difference, alpha=b[0], out=memory).mul_(p[0])
                second = torch.add(constants[1].unsqueeze(1), difference, alpha=-b[1], out=difference).mul_(p[1])
                for each, to_logits, other, i in ((passes[0], first, p[1], 1), (passes[1], second, p[0], 0)):
                    if b[i]:
                        to_logits.sub_(other, alpha=b[i])
                    wrong = -self.right * a[1 - i]
                    to_logits.scatter_add_(1, chosen, to_logits.new_full((1, 1), wrong).expand_as(chosen))
                    gradients.add(each, to_logits if scale is None else to_logits.mul_(scale))
        self._finish(nll, log_sum, kl, gradients, scale)

    def _finish(
        self, nll: Tensor, log_sum: Tensor, kl: Tensor, gradients: ProjectionGradients, scale: Optional[Tensor]
    ) -> None:
        (a, b), types = self.settings.coefficients, len(self.weight)
        column = self.weight.sum(0, dtype=self.exact)
        logit_sum = torch.mv(self.features.to(self.exact), column).view_as(nll)
        smoothed = (self.right * nll + self.other * (types * log_sum - logit_sum)).sum(1)
        self.nll, self.kl = nll.sum(1), kl.sum(1)
        self.loss = a[0] * smoothed[0] + a[1] * smoothed[1] + b[0] * self.kl[0] + b[1] * self.kl[1]
        spread = torch.cat([torch.full_like(nll[i], self.other * a[i]) for i in range(2)]).unsqueeze(1)
        self.gradients = gradients.finish(column, spread if scale is None else spread * scale)

    def _logits(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits and the probabilities of some positions, in float32 at least."""
        x = mm(features, self.weight.t()).to(self.exact)
        return x, torch.softmax(x, dim=1)
