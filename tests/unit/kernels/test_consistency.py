"""Both passes' losses and divergences, some positions at a time, against the formula."""

from __future__ import annotations

import pytest
import torch
from support.waits import Waits
from torch import Tensor

from deepnmt.kernels import projection
from deepnmt.kernels.linear_consistency import Coefficients, linear_consistency

N, C, V = 11, 6, 9
SETTINGS = {
    "r-drop": Coefficients((1.0, 1.0), (2.5, 2.5)),
    "simcut": Coefficients((1.0, 0.0), (3.0, 0.0)),
    "all different": Coefficients((0.7, -0.4), (1.3, 0.6)),
}


def inputs(dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    h, weight = (scale * torch.randn(2 * N, C)).to(dtype), torch.randn(V, C).to(dtype)
    return h.requires_grad_(), weight.requires_grad_(), torch.randint(V, (N,))


def formula(h: Tensor, weight: Tensor, target: Tensor, smoothing: float, settings: Coefficients) -> list[Tensor]:
    """Loss, losses of the passes without smoothing, and divergences, position by position."""
    nll, smoothed, kl = ([h.new_zeros(()), h.new_zeros(())] for _ in range(3))
    for n, right in enumerate(target.tolist()):
        log_p = []
        for i in range(2):
            scores = (weight * h[n + i * N]).sum(1)
            log_p.append(scores - scores.logsumexp(0))
            wanted = torch.full_like(scores, smoothing / (V - 1))
            wanted[right] = 1 - smoothing
            nll[i] = nll[i] - log_p[i][right]
            smoothed[i] = smoothed[i] - (wanted * log_p[i]).sum()
        for i in range(2):
            kl[i] = kl[i] + (log_p[i].exp() * (log_p[i] - log_p[1 - i])).sum()
    (a, b) = settings
    return [sum((a[i] * smoothed[i] + b[i] * kl[i] for i in range(2)), h.new_zeros(())), *nll, *kl]


@pytest.mark.parametrize("rows", [1, 4, 100])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_equals_the_formula(
    smoothing: float, settings: Coefficients, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(projection.LOGITS, "cpu", rows * 4 * V)
    monkeypatch.setattr(projection, "fewest_positions", lambda: 1)
    h, weight, target = inputs()
    losses = linear_consistency(h, weight, target, smoothing, settings, accuracy=True)
    expected = formula(h, weight, target, smoothing, settings)
    torch.testing.assert_close([losses.loss, *losses.nll, *losses.kl], expected, rtol=1e-11, atol=1e-12)
    assert int(losses.correct) == (h[:N] @ weight.t()).argmax(1).eq(target).sum()
    assert not losses.nll.requires_grad
    assert not losses.kl.requires_grad
    found = torch.autograd.grad(-2.5 * losses.loss, (h, weight))
    torch.testing.assert_close(found, torch.autograd.grad(-2.5 * expected[0], (h, weight)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [1.0, 512.0])
def test_lower_precision(dtype: torch.dtype, scale: float) -> None:
    """Also where the loss is scaled before the backward pass, as in FP16."""
    h, weight, target = inputs(dtype, 2.0)
    losses = linear_consistency(h, weight, target, 0.1, SETTINGS["r-drop"])
    exact = [tensor.detach().double().requires_grad_() for tensor in (h, weight)]
    expected = formula(*exact, target, 0.1, SETTINGS["r-drop"])
    unit = torch.finfo(dtype).eps
    assert losses.loss.dtype == losses.kl.dtype == torch.float32
    torch.testing.assert_close(losses.loss.double(), expected[0], rtol=6 * unit, atol=0)
    found = torch.autograd.grad(scale * losses.loss, (h, weight))
    for value, reference in zip(found, torch.autograd.grad(scale * expected[0], exact)):
        assert value.dtype == dtype
        assert (value.double() - reference).norm() < 6 * unit * reference.norm()


def test_passes_far_apart_stay_finite() -> None:
    h = torch.tensor([[200.0, 0.0], [0.0, 200.0]], requires_grad=True)
    losses = linear_consistency(h, torch.eye(2), torch.tensor([0]), 0.0, SETTINGS["r-drop"])
    assert losses.kl.tolist() == [200.0, 200.0]
    assert losses.nll.tolist() == [0.0, 200.0]
    (gradient,) = torch.autograd.grad(losses.loss, h)
    assert gradient.isfinite().all()


def test_no_positions() -> None:
    h, weight, target = inputs()
    losses = linear_consistency(h[:0], weight, target[:0], 0.1, SETTINGS["r-drop"])
    assert float(losses.loss.detach()) == 0.0
    assert not any(gradient.any() for gradient in torch.autograd.grad(losses.loss, (h, weight)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_the_host_waits_for_nothing(dtype: torch.dtype) -> None:
    h, weight, target = inputs(dtype)
    with Waits() as counted:
        linear_consistency(h, weight, target, 0.1, SETTINGS["simcut"], accuracy=True).loss.backward()
    assert counted.waits == {}
    assert counted.operations > 20
