"""Each kernel computes what the reference beside it says, gradients too.

The kernels' own tests hold them against formulas written there; this is for the reader who trusts a `reference`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepnmt.kernels import adam as adam_kernel
from deepnmt.kernels import (
    blocked_sums,
    dropout,
    feed_forward,
    linear_consistency,
    linear_cross_entropy,
    linear_log_probs,
    output_norm,
    projection,
    short_attention,
)
from deepnmt.training.fused_adam import FusedAdam

BOTH = Callable[..., Any]


def same(kernel: BOTH, reference: BOTH, *inputs: Tensor) -> None:
    """Values and gradients of both agree in float64."""
    found = []
    for function in (kernel, reference):
        leaves = [x.detach().clone().requires_grad_() for x in inputs]
        result = function(*leaves)
        direction = torch.randn(result.shape, generator=torch.Generator().manual_seed(7), dtype=result.dtype)
        found.append([result, *torch.autograd.grad((result * direction).sum(), leaves)])
    for one, other in zip(*found):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.fixture(autouse=True)
def in_double() -> Any:
    torch.manual_seed(3)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def test_feed_forward() -> None:
    inner, outer = nn.Linear(6, 10), nn.Linear(10, 5)
    same(
        lambda x: feed_forward.feed_forward(x, inner, outer),
        lambda x: feed_forward.reference(x, inner, outer),
        torch.randn(4, 3, 6),
    )


def test_attention() -> None:
    projections = tuple(nn.Linear(8, 8) for _ in range(4))
    padding = torch.tensor([[False] * 5, [True, *[False] * 4]])
    mask = torch.full((3, 5), 0.0).index_put((torch.tensor(0), torch.tensor(4)), torch.tensor(-torch.inf))
    settings = short_attention.Settings(2, 0.5, padding, mask, 0.0, weights=True)
    query, key = torch.randn(3, 2, 8), torch.randn(5, 2, 8)
    same(
        lambda q, k: short_attention.attention(q, k, projections, settings)[0],
        lambda q, k: short_attention.reference(q, k, projections, settings)[0],
        query,
        key,
    )
    kernels_weights = short_attention.attention(query, key, projections, settings)[1]
    torch.testing.assert_close(kernels_weights, short_attention.reference(query, key, projections, settings)[1])


def test_output_norm() -> None:
    norm = output_norm.OutputNorm(6)
    nn.init.normal_(norm.weight, 1.0, 0.1)
    nn.init.normal_(norm.bias)
    same(norm, lambda x: output_norm.reference(x, norm.weight, norm.bias, norm.eps), torch.randn(4, 3, 6))


@pytest.mark.parametrize("slices", [1, 5])
def test_blocked_sums(slices: int) -> None:
    weight, z = torch.randn(7, 7, slices).tril_(), [torch.randn(2, 3, 5) for _ in range(7)]
    matrix = torch.stack([torch.cat([weight[i, : i + 1], torch.zeros(6 - i, slices)]) for i in range(7)])
    sums = blocked_sums.BlockedSums(matrix, z[0], 7, 0)
    for i, expected in enumerate(blocked_sums.reference(matrix, z)):
        sums.slot().copy_(z[i])
        sums.arrived(i)
        torch.testing.assert_close(sums.row(i), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_linear_cross_entropy(smoothing: float) -> None:
    target = torch.tensor([1, 8, 3, 3])
    same(
        lambda h, w: linear_cross_entropy.linear_cross_entropy(h, w, target, smoothing).loss,
        lambda h, w: linear_cross_entropy.reference(h, w, target, smoothing),
        torch.randn(4, 6),
        torch.randn(9, 6),
    )


def test_linear_consistency() -> None:
    target = torch.tensor([1, 8, 3])
    coefficients = linear_consistency.Coefficients((0.7, 0.4), (2.0, 3.0))
    same(
        lambda h, w: linear_consistency.linear_consistency(h, w, target, 0.1, coefficients).loss,
        lambda h, w: linear_consistency.reference(h, w, target, 0.1, coefficients),
        torch.randn(6, 5),
        torch.randn(9, 5),
    )


def test_adam() -> None:
    parameter = nn.Parameter(torch.randn(5))
    optimizer = FusedAdam([parameter], lr=0.1, betas=(0.9, 0.98), eps=1e-3, weight_decay=0.01)
    p, m, v = parameter.detach().clone(), torch.zeros(5), torch.zeros(5)
    for t in (1, 2, 3):
        parameter.grad = torch.randn(5)
        p, m, v = adam_kernel.reference(p, parameter.grad, m, v, t, 0.1, (0.9, 0.98), 1e-3, 0.01)
        optimizer.step()
        torch.testing.assert_close(parameter.detach(), p)


def test_dropout_has_the_rate_and_the_scale_of_the_reference() -> None:
    x = torch.ones(40_000)
    values = [(x * dropout.dropout_noise(x, 0.3)).unique(), dropout.reference(x, 0.3).unique()]
    torch.testing.assert_close(*values)
    rates = [float((y == 0).double().mean()) for y in (dropout.dropout_noise(x, 0.3), dropout.reference(x, 0.3))]
    assert all(abs(rate - 0.3) < 0.01 for rate in rates)  # four standard deviations


def test_log_probs_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    features, weight, target = torch.randn(11, 4), torch.randn(7, 4), torch.arange(11) % 7
    for logits in (2**22, 20):
        monkeypatch.setitem(projection.LOGITS, "cpu", logits)
        monkeypatch.setattr(projection, "fewest_positions", lambda: 1)
        same(
            lambda h, W: linear_log_probs.linear_log_probs(h, W, target),
            lambda h, W: linear_log_probs.reference(h, W, target),
            features,
            weight,
        )
    assert linear_log_probs.linear_log_probs(features[:0], weight, target[:0]).shape == (0,)
