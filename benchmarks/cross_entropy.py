"""The fused projection and loss against torch's, forward and backward: time and memory.

With the smoothing e of fairseq spread over the V - 1 other types, s = e / (V - 1), and the target t of the features h,

    loss = nll + s V h . W_t - s h . sum_v W_v

so that torch's `linear_cross_entropy` in pieces, which refuses smoothing (torch 2.13), can be compared too.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from common import Row, Step, compare, interleaved, main, megabytes, note, peak_memory
from torch import Tensor

SMOOTHING = 0.1
# Positions, channels and types.
SIZES = {"Transformer-Tiny on Multi30k": (3500, 128, 9712), "WMT": (1024, 512, 32768)}
OURS = "deepnmt"


def losses(name: str, h: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """Return the label-smoothed loss, summed, as one of the cases computes it."""
    types = len(weight)
    if name == OURS:
        from deepnmt.kernels.linear_cross_entropy import linear_cross_entropy

        return linear_cross_entropy(h, weight, target, SMOOTHING).loss
    if name == "fairseq":
        from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

        loss: Tensor = label_smoothed_nll_loss(torch.log_softmax(F.linear(h, weight), -1), target, SMOOTHING, -1)[0]
        return loss
    options = torch.nn.LinearCrossEntropyOptions()
    if name == "torch":
        smoothing = SMOOTHING * types / (types - 1)
        return F.linear_cross_entropy(
            h, weight, target, reduction="sum", label_smoothing=smoothing, options=options
        )  # fmt: skip
    nll = F.linear_cross_entropy(h, weight, target, reduction="sum", options=options)
    other = SMOOTHING / (types - 1)
    return nll + other * (types * (h * F.embedding(target, weight)).sum() - torch.mv(h, weight.sum(0)).sum())


def steps(name: str, positions: int, channels: int, types: int) -> Step:
    """A step that makes a forward and a backward pass."""
    import warnings

    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    h = torch.randn(positions, channels, requires_grad=True)
    weight = (torch.randn(types, channels) / channels**0.5).requires_grad_()
    target = torch.randint(types, (positions,))

    def step() -> None:
        h.grad = weight.grad = None
        losses(name, h, weight, target).backward()

    return step


def gradients(name: str, positions: int, channels: int, types: int) -> list[Tensor]:
    """Return the loss and both gradients."""
    torch.manual_seed(1)
    h, weight = torch.randn(positions, channels, requires_grad=True), torch.randn(types, channels, requires_grad=True)
    loss = losses(name, h, weight, torch.randint(types, (positions,)))
    return [loss.detach(), *torch.autograd.grad(loss, (h, weight))]


def measure(options: Namespace) -> Iterator[Row]:
    """The rows."""
    cases = (OURS, "torch", "torch in pieces", "fairseq")
    for name in cases[1:]:
        torch.testing.assert_close(gradients(name, 20, 8, 50), gradients(OURS, 20, 8, 50), rtol=1e-4, atol=1e-4)
    for what, size in [*SIZES.items()][: 1 if options.quick else None]:
        note(f"cross_entropy: {what}")
        timings = interleaved({name: steps(name, *size) for name in cases}, options.repetitions)
        peaks = {name: peak_memory(steps, name, *size) for name in cases}
        shape = "{:,} x {} x {:,}".format(*size)
        for other in cases[1:]:
            yield compare(f"time, {OURS} / {other}, {what}, {shape}", "", timings, OURS, other)
            detail = f"{OURS} {megabytes(peaks[OURS])}, {other} {megabytes(peaks[other])}"
            yield Row("peak memory, the same", peaks[OURS] / peaks[other], "", detail)


def add_options(parser: ArgumentParser) -> None:
    """None of its own."""


if __name__ == "__main__":
    main(__doc__ or "", measure, add_options)
