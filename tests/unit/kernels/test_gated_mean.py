"""The gated mean on both ways, against a loop in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from deepnmt.kernels import gated_mean as kernel


@pytest.fixture(params=["position by position", "in doubling steps"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "on_cpu", lambda device: request.param == "position by position")


def numbers(length: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(length)
    gates = torch.rand(length, 2, 3, dtype=dtype)
    return gates, torch.randn(length, 2, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype)


def loop(gates: Tensor, values: Tensor, before: Tensor) -> Tensor:
    found = []
    for t in range(len(gates)):
        before = gates[t] * before + (1 - gates[t]) * values[t]
        found.append(before)
    return torch.stack(found)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13, 100])
def test_values_and_gradients(length: int) -> None:
    found = []
    for function in (kernel.gated_mean, kernel.reference, loop):
        leaves = [each.requires_grad_() for each in numbers(length)]
        result = function(*leaves)
        direction = torch.linspace(-1, 2, result.numel(), dtype=torch.float64).view_as(result)
        found.append([result, *torch.autograd.grad((result * direction).sum(), leaves)])
    for other in found[:2]:
        torch.testing.assert_close(other, found[2], rtol=1e-12, atol=1e-13)


def test_gradcheck() -> None:
    assert torch.autograd.gradcheck(kernel.gated_mean, [each.requires_grad_() for each in numbers(5)])


@pytest.mark.parametrize("gate", [0.0, 1.0, 1 - 1e-7, None], ids=str)
def test_a_thousand_positions_in_float32(gate: float | None) -> None:
    gates, values, before = numbers(1000, torch.float32)
    gates = gates if gate is None else torch.full_like(gates, gate)
    leaves = [each.requires_grad_() for each in (gates, values, before)]
    result = kernel.gated_mean(*leaves)
    own = [result, *torch.autograd.grad(result.sum(), leaves)]
    leaves = [each.detach().double().requires_grad_() for each in leaves]
    result = loop(*leaves)
    for one, other in zip(own, [result, *torch.autograd.grad(result.sum(), leaves)]):
        assert one.isfinite().all()
        assert (one.double() - other).norm() <= 1e-5 * other.norm()
