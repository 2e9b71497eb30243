"""Adam in one pass against the formula in float64, and against fairseq's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from fairseq.optim.adam import Adam, FairseqAdam, FairseqAdamConfig
from support.waits import Waits
from torch import Tensor, nn

import deepnmt  # noqa: F401  puts it in place
from deepnmt.kernels.adam import obstacle
from deepnmt.training.fused_adam import FusedAdam

OPTIONS = {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}


def parameters(dtype: torch.dtype = torch.float64) -> list[nn.Parameter]:
    torch.manual_seed(1)
    return [nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in ((5, 3), (7,), (2, 2))]


def set_gradients(parameters: list[nn.Parameter], step: int) -> None:
    torch.manual_seed(100 + step)
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape, dtype=torch.float64).to(parameter.dtype)


def formula(
    p: Tensor, gradients: list[Tensor], lr: float, betas: tuple[float, float], eps: float, decay: float
) -> Tensor:
    """Kingma 2015 (ICLR, arXiv 1412.6980), the efficient order of its section 2, with decoupled decay."""
    m = v = torch.zeros_like(p)
    for t, g in enumerate(gradients, 1):
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        rate = lr * (1 - betas[1] ** t) ** 0.5 / (1 - betas[0] ** t)
        p = p - lr * decay * p - rate * m / (v.sqrt() + eps)
    return p


def test_equals_the_formula() -> None:
    found = parameters()
    start = [p.detach().clone() for p in found]
    optimizer, gradients = FusedAdam(found, **OPTIONS), []
    for step in range(6):
        set_gradients(found, step)
        gradients.append([p.grad.clone() for p in found])
        optimizer.step()
    for index, p in enumerate(start):
        own = [of_step[index] for of_step in gradients]
        torch.testing.assert_close(found[index].detach(), formula(p, own, 0.01, (0.8, 0.95), 1e-3, 0.1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_equals_fairseqs(dtype: torch.dtype) -> None:
    one, other = parameters(dtype), parameters(dtype)
    optimizers = FusedAdam(one, **OPTIONS), Adam(other, **OPTIONS)
    for step in range(6):
        for list_, optimizer in zip((one, other), optimizers):
            set_gradients(list_, step)
            if step == 3:
                list_[1].grad = None  # and from now on has made one step less
            assert optimizer.step(lambda: 5.0) == 5.0
    exact = {"rtol": 0, "atol": 0} if dtype in (torch.bfloat16, torch.float16) else {}
    torch.testing.assert_close(one, other, **exact)
    states = [optimizer.state_dict()["state"] for optimizer in optimizers]
    assert [state["step"] for state in states[0].values()] == [6, 5, 6]
    torch.testing.assert_close(states[0], states[1])


@pytest.mark.parametrize("first", [Adam, FusedAdam])
def test_a_checkpoint_of_either_is_gone_on_with_by_the_other(first: type[Any]) -> None:
    second = FusedAdam if first is Adam else Adam
    one, other = parameters(), parameters()
    before, alone = first(one, **OPTIONS), FusedAdam(other, **OPTIONS)
    for step in range(3):
        set_gradients(one, step), set_gradients(other, step)
        before.step(), alone.step()
    after = second(one, **OPTIONS)
    after.load_state_dict(copy.deepcopy(before.state_dict()))
    set_gradients(one, 3), set_gradients(other, 3)
    after.step(), alone.step()
    torch.testing.assert_close(one, other)


def test_gradients_of_another_type_take_fairseqs_way() -> None:
    one = parameters(torch.float32)
    one[0].grad = torch.sparse_coo_tensor([[0], [0]], [1.0], (5, 3), check_invariants=True)
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        FusedAdam(one, **OPTIONS).step()


def test_the_host_waits_for_no_parameter() -> None:
    found = [nn.Parameter(torch.ones(2)) for _ in range(50)]
    optimizer = FusedAdam(found, **OPTIONS)
    set_gradients(found, 0)
    with Waits() as counted:
        optimizer.step()
    assert counted.waits == {}
    assert counted.operations > 50


OBSTACLES = {
    "amsgrad": "AMSGrad is on",
    "half": "the optimizer's parameters are in half precision",
    "meta": "the parameters are neither on the CPU nor on CUDA",
    "sparse": "a gradient is sparse",
}


@pytest.mark.parametrize(("how", "reason"), OBSTACLES.items())
def test_obstacles(how: str, reason: str) -> None:
    one, other = parameters(), nn.Parameter(torch.ones(2, device="meta" if how == "meta" else None))
    if how == "half":
        other.data = other.data.half()
    elif how == "sparse":
        other.grad = torch.ones(2).to_sparse()
    assert obstacle([{"params": one}]) is None
    assert obstacle([{"params": one}, {"params": [other], "amsgrad": how == "amsgrad"}]) == reason


def test_amsgrad_takes_fairseqs_way() -> None:
    one, other = parameters(), parameters()
    for list_, kind in ((one, FusedAdam), (other, Adam)):
        optimizer = kind(list_, **OPTIONS, amsgrad=True)
        for step in range(4):
            set_gradients(list_, step)
            optimizer.step()
        assert "max_exp_avg_sq" in optimizer.state[list_[0]]
    torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("old", [False, True])
def test_option(old: bool) -> None:
    config = FairseqAdamConfig(use_old_adam=old, adam_betas="(0.9, 0.98)", adam_eps=1e-6, weight_decay=0.2, lr=[0.5])
    config.tpu = False
    optimizer = FairseqAdam(config, parameters())._optimizer
    assert type(optimizer) is (Adam if old else FusedAdam)
    (group,) = optimizer.param_groups
    assert [group[key] for key in ("lr", "betas", "eps", "weight_decay")] == [0.5, (0.9, 0.98), 1e-6, 0.2]
    assert len(group["params"]) == 3
