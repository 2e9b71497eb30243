"""The output projection and the label-smoothed cross entropy in one, without ever holding the logits of a batch.

Shapes: N target positions, C channels, V types. A position has features h, logits x = W h, softmax p and target t.
fairseq's smoothing spreads e over the V - 1 other types, s = e / (V - 1):

    loss = (1 - e - s) (-log p_t) + s sum_v (-log p_v)

    dLoss/dx = p - s - (1 - e - s) [v = t]

A position may count more or less: its loss, and with it the gradient, is multiplied by its weight.

A share w of the loss may be the cross entropy with a teacher's prediction q. The K largest probabilities of q are
given; the other types share the rest evenly, r = (1 - sum of the K) / (V - K):

    loss = (1 - w) (loss above) - w sum_v q_v log p_v

    dLoss/dx = p - (1 - w) (s + (1 - e - s) [v = t]) - w r - w (q_v - r) [v is one of the K]

The positions are taken some at a time: their logits, and at once the gradients of h and W. The backward pass needs
nothing else. Terms without p are added at the end, for all positions together. In half precision, the loss is scaled to
keep small gradients from vanishing. The gradients then wait for the backward pass, and the logits are made twice.

torch's `linear_cross_entropy` is the same loss. With smoothing it makes all logits (torch 2.13). In pieces, without
smoothing and with terms linear in h added to it, it takes 1.9 times as long as this one. The size was
3,500 x 128 x 9,712 (`benchmarks/cross_entropy.py`; `benchmarks/results/2026-11-23_epyc-avx512_2cores.md`).
"""

from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepnmt.kernels.products import mm
from deepnmt.kernels.projection import ProjectionGradients, on_cpu, pieces
from deepnmt.reference import reference_wanted

# Below this, a probability has lost digits.
TINY = 1e-30


class Taught(NamedTuple):
    """A teacher's prediction at each position.

    Attributes:
        types: the K likeliest, N x K, fewer than V
        probabilities: of these types, N x K; the rest up to 1 is spread evenly over the V - K others
        weight: w, the share of the cross entropy with this distribution in the loss, from 0 to 1
        temperature: T, which divided the logits behind `probabilities`; it also divides the logits of p in that share,
            which counts T^2 times
    """

    types: Tensor
    probabilities: Tensor
    weight: float
    temperature: float = 1.0


class Losses(NamedTuple):
    """Sums over the positions.

    Attributes:
        loss: label-smoothed, in nats
        nll: the same without smoothing, without a gradient
        correct: how often the target is the likeliest type; 0 unless requested
    """

    loss: Tensor
    nll: Tensor
    correct: Tensor


def reference(
    h: Tensor, W: Tensor, target: Tensor, e: float, taught: Optional[Taught] = None, counts: Optional[Tensor] = None
) -> Tensor:
    """Return the sum of the losses by the formula above; autograd makes its backward pass."""
    log_p = (h @ W.t()).log_softmax(-1)
    s = e / (len(W) - 1)
    losses = -(1 - e - s) * log_p.gather(1, target[:, None]).squeeze(1) - s * log_p.sum(1)
    if taught is not None:
        types, known, w = taught[:3]
        r = (1 - known.sum(1, keepdim=True)) / (len(W) - types.size(1))
        q = r.expand_as(log_p).scatter(1, types, known)
        losses = (1 - w) * losses - w * (q * log_p).sum(1)
    return (losses if counts is None else losses * counts).sum()


def linear_cross_entropy(
    features: Tensor,
    weight: Tensor,
    target: Tensor,
    smoothing: float,
    accuracy: bool = False,
    counts: Optional[Tensor] = None,
    taught: Optional[Taught] = None,
) -> Losses:
    """The losses of `weight @ h` for all features h.

    Args:
        features: N x C
        weight: V x C
        target: N types, none of them padding
        smoothing: e
        accuracy: count the correct ones
        counts: N, how much each position counts in the loss; 1 by default
        taught: a teacher's predictions; no teacher by default
    """
    if taught is not None and taught.temperature != 1:
        w, T = taught.weight, taught.temperature
        alone = linear_cross_entropy(features, weight, target, smoothing, accuracy, counts)
        soft = taught._replace(weight=1.0, temperature=1.0)
        softened = linear_cross_entropy(features / T, weight, target, 0.0, counts=counts, taught=soft)
        return alone._replace(loss=(1 - w) * alone.loss + w * T**2 * softened.loss)
    device = features.device.type
    if torch.is_autocast_enabled(device):
        # As for a linear layer there: the projection in the half type, its softmax and sums in float32.
        half = torch.get_autocast_dtype(device)
        features, weight = features.to(half), weight.to(half)
    if reference_wanted():
        exact = torch.promote_types(features.dtype, torch.float32)
        h, W = features.to(exact), weight.to(exact)
        x = (h @ W.t()).detach()
        correct = x.argmax(1).eq(target).sum() if accuracy else target.new_zeros(())
        loss = reference(h, W, target, smoothing, taught, counts)
        return Losses(loss, torch.nn.functional.cross_entropy(x, target, reduction="sum"), correct)
    gradients = torch.is_grad_enabled() and (features.requires_grad or weight.requires_grad)
    return Losses(
        *_LinearCrossEntropy.apply(  # type: ignore[no-untyped-call]
            features, weight, target, smoothing, accuracy, gradients, counts, *(taught or (None, None, 0.0))[:3]
        )
    )


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        accuracy: bool,
        gradients: bool,
        counts: Optional[Tensor],
        types: Optional[Tensor],
        probabilities: Optional[Tensor],
        share: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.smoothing, ctx.share = smoothing, share
        ctx.now = gradients and features.dtype in (torch.float32, torch.float64)
        with torch.autocast(features.device.type, enabled=False):
            run = _Run(features, weight, target, smoothing, counts, _taught(types, probabilities, share))
            run.all(ctx.needs_input_grad[:2] if ctx.now else (False, False), accuracy=accuracy)
        if ctx.now:
            ctx.save_for_backward(*run.gradients)
        elif gradients:
            ctx.save_for_backward(features, weight, target, counts, types, probabilities)
        ctx.mark_non_differentiable(run.nll, run.correct)
        return run.loss, run.nll, run.correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Any) -> tuple[Optional[Tensor], ...]:
        if ctx.now:
            found = tuple(None if saved is None else saved * gradient for saved in ctx.saved_tensors)
        else:
            features, weight, target, counts, types, probabilities = ctx.saved_tensors
            taught = _taught(types, probabilities, ctx.share)
            run = _Run(features, weight, target, ctx.smoothing, counts, taught)
            run.all(ctx.needs_input_grad[:2], scale=gradient)
            found = run.gradients
        return (*found, *[None] * 8)


def _taught(types: Optional[Tensor], probabilities: Optional[Tensor], share: float) -> Optional[Taught]:
    return None if types is None or probabilities is None else Taught(types, probabilities, share)


class _Run:
    """One way through the positions.

    Args:
        features, weight, target, smoothing, counts, taught: as of `linear_cross_entropy`

    Attributes:
        loss, nll, correct: as of `Losses`
        gradients: of features and weight, N x C and V x C; None where not requested
    """

    def __init__(
        self,
        features: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        counts: Optional[Tensor],
        taught: Optional[Taught],
    ) -> None:
        self.features, self.weight, self.target = features, weight, target
        self.exact = torch.promote_types(features.dtype, torch.float32)
        self.counts = None if counts is None else counts.to(self.exact)[:, None]
        share = 0.0 if taught is None else taught.weight
        other = smoothing / (len(weight) - 1)
        # The required values of the softmax: for the target, for each type, and for types that a teacher names.
        self.right = (1.0 - share) * (1.0 - smoothing - other)
        self.other: Union[float, Tensor] = (1.0 - share) * other
        self.named: Optional[tuple[Tensor, Tensor]] = None
        if taught is not None:
            known = taught.probabilities.to(self.exact)
            # Rounded, their sum may slightly exceed 1.
            known = known / known.sum(1, keepdim=True).clamp(min=1.0)
            rest = (1.0 - known.sum(1, keepdim=True)) / (len(weight) - known.size(1))
            self.named = taught.types, share * (known - rest)
            self.other = self.other + share * rest  # N x 1
        self.gradients: tuple[Optional[Tensor], Optional[Tensor]] = None, None

    def all(self, wanted: tuple[bool, bool], scale: Optional[Tensor] = None, accuracy: bool = False) -> None:
        """Compute the losses, and the requested gradients of features and weight, multiplied by `scale`."""
        types, device = len(self.weight), self.features.device
        nll = self.features.new_empty(len(self.target), 1, dtype=self.exact)
        hit = torch.empty_like(nll)  # the target's logit
        told = torch.zeros_like(nll)  # weighted logits of the types that a teacher names
        self.correct = self.target.new_zeros(())
        gradients = ProjectionGradients(self.features, self.weight, wanted)
        logits = softmax = None
        for some in pieces(len(nll), types, device):
            features, target = self.features[some], self.target[some, None]
            if logits is None or softmax is None:
                logits = features.new_empty(len(features), types)
                # In one place, where both have one type.
                softmax = logits if logits.dtype == self.exact else torch.empty_like(logits, dtype=self.exact)
            x = mm(features, self.weight.t(), out=logits[: len(features)])
            hit[some] = x.gather(1, target).to(self.exact)
            named = None if self.named is None else [each[some] for each in self.named]
            if named is not None:
                told[some] = (x.gather(1, named[0]) * named[1]).sum(1, keepdim=True)
            if accuracy:
                self.correct += x.argmax(1).eq(target.squeeze(1)).sum()
            p, nll[some] = self._softmax(features, x, target, softmax[: len(features)])
            if any(wanted):
                p.scatter_add_(1, target, p.new_full((1, 1), -self.right).expand_as(target))
                if named is not None:
                    p.scatter_add_(1, named[0], -named[1])
                if self.counts is not None:
                    p.mul_(self.counts[some])
                gradients.add(some, p if scale is None else p.mul_(scale))

        log_sum = hit + nll  # of the exponentials of the logits
        column = self.weight.sum(0, dtype=self.exact)
        logit_sum = torch.mv(self.features.to(self.exact), column)[:, None]
        self.nll = nll.sum()
        loss = self.right * nll + self.other * (types * log_sum - logit_sum)
        if self.named is not None:
            loss = loss + self.named[1].sum(1, keepdim=True) * log_sum - told
        spread: Union[float, Tensor] = self.other if scale is None else self.other * scale
        if self.counts is not None:
            loss, spread = loss * self.counts, spread * self.counts
        self.loss = loss.sum()
        self.gradients = gradients.finish(column, spread)

    def _softmax(self, features: Tensor, x: Tensor, target: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """Return the probabilities, which may overwrite x, and the targets' negative log-probabilities."""
        if not on_cpu(x.device):
            log_p = torch.log_softmax(x, dim=1, dtype=self.exact, out=out)
            nll = -log_p.gather(1, target)
            return log_p.exp_(), nll
        # torch's softmax is faster than its exponential, and probabilities are rarely too small.
        p = torch.softmax(x, dim=1, dtype=self.exact, out=out)
        chosen = p.gather(1, target)
        nll = -chosen.log()
        lost = (chosen < TINY).squeeze(1)
        if lost.any():
            x = mm(features[lost], self.weight.t())
            nll[lost] = -torch.log_softmax(x, dim=1, dtype=self.exact).gather(1, target[lost])
        return p, nll
