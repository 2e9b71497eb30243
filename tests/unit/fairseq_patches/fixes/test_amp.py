"""--amp: what Adam sees is the gradient, whatever the loss scale."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from typing import Any

import pytest
import torch
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.sgd import SGD


def common(**given: Any) -> Namespace:
    """The options of --amp, as they are by default but for some."""
    defaults = {"fp16_init_scale": 128, "amp_init_scale": 128, "amp_scale_window": None, "min_loss_scale": 1e-4}
    return Namespace(**{**defaults, **given})


def amp_optimizer(parameter: torch.nn.Parameter, scale: float) -> Any:
    """Build fairseq's optimizer of --amp around plain gradient descent with rate 1, on the CPU."""
    plain = Namespace(lr=[1.0], momentum=0.0, weight_decay=0.0)
    cfg = Namespace(optimizer=plain, common=common(fp16_init_scale=scale))
    optimizer = AMPOptimizer(cfg, [parameter], SGD(plain, [parameter]))
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    return optimizer


@pytest.mark.parametrize("scale", [1.0, 128.0])
def test_gradients_are_divided_by_the_loss_scale_once(scale: float) -> None:
    parameter = torch.nn.Parameter(torch.tensor([5.0, -1.0]))
    optimizer = amp_optimizer(parameter, scale)
    optimizer.backward((parameter * torch.tensor([2.0, 0.5])).sum())
    assert float(optimizer.clip_grad_norm(0.0)) == pytest.approx((2.0**2 + 0.5**2) ** 0.5)
    optimizer.step()
    # The rate is 1: each parameter loses its gradient.
    assert parameter.tolist() == [3.0, -1.5]
    assert optimizer.scaler.get_scale() == scale


@pytest.mark.parametrize(
    ("options", "scale", "interval"),
    [
        ({}, 128, 2000),
        ({"amp_init_scale": 16}, 16, 2000),
        ({"fp16_init_scale": 8}, 8, 2000),  # as in fairseq
        ({"fp16_init_scale": 8, "amp_init_scale": 32, "amp_scale_window": 5}, 32, 5),
    ],
)
def test_the_scale_begins_and_rises_as_the_options_say(
    options: dict[str, int], scale: int, interval: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Namespace(lr=[1.0], momentum=0.0, weight_decay=0.0)
    cfg, parameter = Namespace(optimizer=plain, common=common(**options)), torch.nn.Parameter(torch.ones(1))
    # Without a GPU, nothing is scaled.
    assert AMPOptimizer(cfg, [parameter], SGD(plain, [parameter])).scaler.state_dict() == {}
    monkeypatch.setattr(torch.cuda.amp, "GradScaler", partial(torch.amp.GradScaler, "cpu"))
    scaler = AMPOptimizer(cfg, [parameter], SGD(plain, [parameter])).scaler
    assert (scaler.get_scale(), scaler.get_growth_interval()) == (scale, interval)


def test_overflow_makes_no_update_and_halves_the_scale() -> None:
    parameter = torch.nn.Parameter(torch.tensor([5.0]))
    optimizer = amp_optimizer(parameter, 128.0)
    optimizer.backward((parameter * float("inf")).sum())
    assert not optimizer.clip_grad_norm(0.0).isfinite()
    optimizer.step()
    assert parameter.tolist() == [5.0]
    assert optimizer.scaler.get_scale() == 64.0
