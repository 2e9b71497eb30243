"""The feed-forward sublayer of training on the CPU against the formula, and when it is fairseq's modules' own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepnmt.kernels.fast_path import HOOKED
from deepnmt.kernels.feed_forward import feed_forward, obstacle


def maps(dtype: torch.dtype = torch.float64) -> tuple[nn.Linear, nn.Linear]:
    torch.manual_seed(1)
    return nn.Linear(6, 10, dtype=dtype), nn.Linear(10, 4, dtype=dtype)


def formula(x: Tensor, inner: nn.Linear, outer: nn.Linear) -> Tensor:
    between = torch.einsum("tbc,dc->tbd", x, inner.weight) + inner.bias
    return torch.einsum("tbd,cd->tbc", between * (between > 0), outer.weight) + outer.bias


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("transposed", [False, True])
def test_equals_the_formula(dtype: torch.dtype, transposed: bool) -> None:
    inner, outer = maps(dtype)
    x = torch.randn(5, 3, 6, dtype=dtype, requires_grad=True)
    y = x.transpose(0, 1) if transposed else x
    factor = torch.randn(*y.shape[:2], 4, dtype=dtype)
    leaves = [x, *inner.parameters(), *outer.parameters()]
    results = []
    for function in (feed_forward, formula):
        output = function(y, inner, outer)
        results.append([output, *torch.autograd.grad((output * factor).sum(), leaves)])
    torch.testing.assert_close(*results)


def test_gradients_by_differences() -> None:
    inner, outer = maps()
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    leaves = (x, *inner.parameters(), *outer.parameters())

    def output(x: Tensor, *_: Tensor) -> Tensor:
        return feed_forward(x, inner, outer)

    assert torch.autograd.gradcheck(output, leaves)


def change(inner: nn.Linear, how: str) -> None:
    nothing: Any = lambda *_: None  # noqa: E731
    if how == "no bias":
        inner.bias = None
    elif how == "other map":
        inner.__class__ = type("Other", (nn.Linear,), {})
    elif how == "half":
        inner.half()
    elif how != "autocast":
        getattr(inner, f"register_{how}_hook")(nothing)


NOT_PLAIN = "a projection is not a plain linear map with a bias"
OBSTACLES = {
    "no bias": NOT_PLAIN,
    "other map": NOT_PLAIN,
    "half": "the model is in half precision",
    "autocast": "it is for the CPU, without autocast",
    **dict.fromkeys(("forward", "forward_pre", "full_backward", "full_backward_pre"), HOOKED),
}


@pytest.mark.parametrize(("how", "reason"), OBSTACLES.items())
@pytest.mark.parametrize("which", [0, 1])
def test_obstacles(how: str, reason: str, which: int) -> None:
    both, x = maps(), torch.zeros(1, 1, 6)
    assert obstacle(x, *both) is None
    change(both[which], how)
    with torch.autocast("cpu", enabled=how == "autocast"):
        assert obstacle(x, *both) == reason


def test_other_devices() -> None:
    assert obstacle(torch.zeros(1, 1, 6, device="meta"), *maps()) == "it is for the CPU, without autocast"
