"""The layer norm that keeps its output against the formula, and what it keeps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from deepnmt.kernels.output_norm import OutputNorm

WIDTH = 12


def formula(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight + norm.bias


def scrambled(dtype: torch.dtype = torch.float64) -> OutputNorm:
    torch.manual_seed(1)
    norm = OutputNorm(WIDTH)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(WIDTH).sign() * (0.2 + torch.rand(WIDTH)))
        norm.bias.normal_()
    return norm.to(dtype)


def all_gradients(y: Tensor, x: Tensor, norm: nn.LayerNorm) -> list[Tensor]:
    leaves = [leaf for leaf in (x, norm.weight, norm.bias) if leaf.requires_grad]
    return list(torch.autograd.grad((y.double() * torch.linspace(-1, 2, y.numel()).view_as(y)).sum(), leaves))


def kept(norm: OutputNorm, x: Tensor, **more: Any) -> tuple[Tensor, list[Tensor]]:
    """The output, and the tensors of its size that are kept for the backward pass."""
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = norm(x, **more)
    return y, [tensor for tensor in saved if tensor.numel() == x.numel()]


@pytest.mark.parametrize("place", [False, True], ids=["own memory", "given memory"])
def test_equals_the_formula(place: bool) -> None:
    norm, x = scrambled(), torch.randn(4, 3, WIDTH, dtype=torch.float64, requires_grad=True)
    memory = torch.empty_like(x).data
    y, saved = kept(norm, x, place=(lambda: memory) if place else None)
    assert [tensor.data_ptr() for tensor in saved] == [y.data_ptr()]
    assert (y.data_ptr() == memory.data_ptr()) == place
    expected = formula(x, norm)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(all_gradients(y, x, norm), all_gradients(expected, x, norm), rtol=0, atol=1e-10)


def test_gradcheck() -> None:
    norm, x = scrambled(), torch.randn(3, 2, WIDTH, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: norm(x), (x, norm.weight, norm.bias))


@pytest.mark.parametrize("frozen", ["input", "weight", "bias"])
def test_frozen_parts(frozen: str) -> None:
    norm, x = scrambled(), torch.randn(5, WIDTH, dtype=torch.float64, requires_grad=True)
    {"input": x, "weight": norm.weight, "bias": norm.bias}[frozen].requires_grad_(False)
    expected = all_gradients(formula(x, norm), x, norm)
    torch.testing.assert_close(all_gradients(norm(x), x, norm), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("gain", "bias", "output_alone"),
    [(1.0, 0.0, True), (0.1, 1.5, True), (0.1, 1.7, False), (-0.1, -1.7, False), (0.0, 0.0, False)],
)
def test_input_is_kept_where_the_output_does_not_tell_it(gain: float, bias: float, output_alone: bool) -> None:
    norm, x = scrambled(torch.float32), torch.randn(50, WIDTH, requires_grad=True)
    with torch.no_grad():
        norm.weight[3], norm.bias[3] = gain, bias
    y, saved = kept(norm, x)
    assert [tensor.data_ptr() == y.data_ptr() for tensor in saved] == [output_alone]
    found = all_gradients(y, x, norm)
    norm.double()
    exact = x.detach().double().requires_grad_()
    expected = all_gradients(formula(exact, norm), exact, norm)
    for value, reference in zip(found, expected):
        torch.testing.assert_close(value.double(), reference, rtol=0, atol=2e-5 * float(reference.abs().max()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision(dtype: torch.dtype) -> None:
    norm, x = scrambled(dtype), torch.randn(20, WIDTH).to(dtype).requires_grad_()
    y, saved = kept(norm, x)
    assert [tensor.data_ptr() for tensor in saved] == [x.data_ptr()]
    found = all_gradients(y, x, norm)
    norm.double()
    exact = x.detach().double().requires_grad_()
    expected = formula(exact, norm)
    for value, reference in zip([y, *found], [expected, *all_gradients(expected, exact, norm)]):
        assert value.dtype == dtype
        assert (value.double() - reference).norm() < 4 * torch.finfo(dtype).eps * reference.norm()


def test_a_hook_may_change_the_output() -> None:
    norm, x = scrambled(), torch.randn(5, WIDTH, dtype=torch.float64, requires_grad=True)
    norm.register_forward_hook(lambda module, args, output: output * 2)
    memory = torch.empty_like(x).data
    y = norm(x, lambda: memory)
    memory.copy_(y.detach())  # as a history does with what is not in its place
    expected = 2 * formula(x, norm)
    torch.testing.assert_close(all_gradients(y, x, norm), all_gradients(expected, x, norm), rtol=0, atol=1e-10)


def test_nothing_is_kept_without_gradients() -> None:
    norm, x = scrambled(), torch.randn(5, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        y, saved = kept(norm, x)
    assert not saved
    torch.testing.assert_close(y, formula(x, norm).detach(), rtol=0, atol=1e-12)


def test_parameters_are_those_of_a_layer_norm() -> None:
    norm = OutputNorm(WIDTH)
    norm.load_state_dict(nn.LayerNorm(WIDTH).state_dict())
    assert isinstance(norm, nn.LayerNorm)
