"""The feed-forward sublayer of training on the CPU against the formula, and when it is fairseq's modules' own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.models import EXAMPLE, build
from torch import Tensor, nn

from deepnmt.kernels import feed_forward as module
from deepnmt.kernels.feed_forward import can_feed_forward, feed_forward
from deepnmt.model import layers


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


@pytest.mark.parametrize(
    "how",
    ["no bias", "other map", "half", "autocast", "forward", "forward_pre", "full_backward", "full_backward_pre"],
)
@pytest.mark.parametrize("which", [0, 1])
def test_what_it_is_not_for(how: str, which: int) -> None:
    both, x = maps(), torch.zeros(1, 1, 6)
    assert can_feed_forward(x, *both)
    change(both[which], how)
    with torch.autocast("cpu", enabled=how == "autocast"):
        assert not can_feed_forward(x, *both)


def test_other_devices() -> None:
    assert not can_feed_forward(torch.zeros(1, 1, 6, device="meta"), *maps())


@pytest.mark.parametrize(
    ("options", "train", "expected"),
    [
        ({}, True, 6),
        ({}, False, 6),
        ({"activation_fn": "gelu"}, True, 0),
        ({"activation_dropout": 0.1}, True, 0),
        ({"activation_dropout": 0.1}, False, 6),
        ({"checkpoint_activations": True}, True, 12),
    ],
    ids=["training", "evaluation", "gelu", "dropout", "dropout in evaluation", "recomputed"],
)
def test_sublayers_of_a_model(
    options: dict[str, Any], train: bool, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []
    monkeypatch.setattr(layers, "feed_forward", lambda *x: (taken.append(x), module.feed_forward(*x))[1])
    build(**options).train(train)(**EXAMPLE)[0].sum().backward()
    assert len(taken) == expected
