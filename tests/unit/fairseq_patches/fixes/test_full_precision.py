"""The weights of a training in half precision are the same whether it is stopped in between or not."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.sgd import SGD
from support.checkpoints import checkpoint
from support.restarts import train_until
from support.slow import slow_but
from support.trainings import binarised_text
from torch import Tensor

import deepnmt
from deepnmt.checkpoints.contents import check_contents
from deepnmt.checkpoints.file import read, write
from deepnmt.checkpoints.optimizer import carried_state, fresh_state
from deepnmt.errors import UserError

deepnmt.register()
# A rate at which single updates are below the rounding of most weights.
SMALL = ["--max-tokens=200", "--encoder-layers=1", "--decoder-layers=1", "--share-all-embeddings", "--lr=1e-4"]
SMALL += ["--no-epoch-checkpoints", "--disable-validation"]
KINDS = {
    "half": ["--fp16", "--fp16-no-flatten-grads"],
    "half-flat": ["--fp16"],
    "bfloat16": ["--bf16"],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(binarised_text(tmp_path_factory.mktemp("text")))]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    # fairseq asks for it where gradients are flat.
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)


def last(save: Path) -> dict[str, Any]:
    contents: dict[str, Any] = read(save / "checkpoint_last.pt")
    return contents


def same(one: Any, other: Any) -> bool:
    """Bit for bit, in whatever they stand."""
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("kind", slow_but(["half"], ["half", "half-flat", "bfloat16"]))
def test_a_stopped_training_adds_to_unrounded_weights(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    options = [*SMALL, *KINDS[kind], "--save-interval-updates=1", "--keep-interval-updates=1"]
    train_until(monkeypatch, data, tmp_path / "whole", *options, "--max-update=6")
    for updates in (1, 2, 4, 6):
        train_until(monkeypatch, data, tmp_path / "stopped", *options, f"--max-update={updates}")
    whole, stopped = last(tmp_path / "whole"), last(tmp_path / "stopped")
    for part in ("model", "last_optimizer_state"):
        assert same(stopped[part], whole[part]), part
    weights = torch.cat([tensor.reshape(-1) for tensor in whole["last_optimizer_state"]["fp32_params"]])
    assert weights.dtype == torch.float32
    assert not torch.equal(weights.to(torch.bfloat16 if kind == "bfloat16" else torch.float16).float(), weights)


def test_gradients_may_be_flat_from_now_on(data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without momentum, SGD keeps nothing that depends on how the gradients lie.
    options = [*SMALL, "--optimizer=sgd", "--lr=1e-30", "--lr-scheduler=fixed"]
    train_until(monkeypatch, data, tmp_path, *options, *KINDS["half"], "--lr=1e-3", "--max-update=3")
    before = torch.cat([tensor.reshape(-1) for tensor in last(tmp_path)["last_optimizer_state"]["fp32_params"]])
    state = last(tmp_path)
    state["last_optimizer_state"]["param_groups"][0]["params"] = [0]
    (tmp_path / "checkpoint_last.pt").unlink()
    write(state, tmp_path / "checkpoint_last.pt")
    train_until(monkeypatch, data, tmp_path, *options, *KINDS["half-flat"], "--max-update=4")
    (after,) = last(tmp_path)["last_optimizer_state"]["fp32_params"]
    assert torch.equal(after, before)


@pytest.mark.parametrize("change", ["edited", "absent", "another size"])
def test_the_model_counts_where_the_weights_are_not_its_own(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    options = [*SMALL, *KINDS["half"]]
    train_until(monkeypatch, data, tmp_path, *options, "--max-update=3")
    state = last(tmp_path)
    weights = state["last_optimizer_state"]["fp32_params"]
    if change == "edited":
        state["model"] = {name: tensor * 2 for name, tensor in state["model"].items()}
    elif change == "absent":
        del state["last_optimizer_state"]["fp32_params"]
    else:
        weights[0] = weights[0][:1]
    (tmp_path / "checkpoint_last.pt").unlink()
    write(state, tmp_path / "checkpoint_last.pt")
    train_until(monkeypatch, data, tmp_path, *options, "--lr=1e-30", "--max-update=4")
    for name, tensor in last(tmp_path)["model"].items():
        if not name.endswith("version"):
            torch.testing.assert_close(tensor, state["model"][name])


def test_other_weights_begin_anew_from_a_grown_model() -> None:
    weights = [torch.ones(2), torch.ones(3)]
    state = {"state": {}, "param_groups": [{"params": [0, 1]}], "loss_scale": 4.0, "fp32_params": weights}
    parameters = {"a": weights[0], "b": weights[1]}
    for changed in (fresh_state(state, 1, "model.pt"), carried_state(state, parameters, parameters, dict, "model.pt")):
        assert changed["loss_scale"] == 4
        assert "fp32_params" not in changed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["half", "half-flat", "memory-efficient"])
def test_the_scale_of_the_loss_rises_over_restarts(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    options = [*SMALL, *({**KINDS, "memory-efficient": ["--memory-efficient-fp16"]}[kind]), "--fp16-scale-window=4"]
    train_until(monkeypatch, data, tmp_path / "whole", *options, "--max-update=13")
    for updates in (3, 6, 9, 13):
        train_until(monkeypatch, data, tmp_path / "stopped", *options, f"--max-update={updates}")
    whole, stopped = (last(tmp_path / name)["last_optimizer_state"] for name in ("whole", "stopped"))
    # From 4, doubled after each four updates.
    assert whole["loss_scale"] == 4 * 2**3
    assert same(stopped, whole)


def test_the_scale_of_amp_is_kept() -> None:
    def optimizer(scale: float) -> Any:
        plain = Namespace(lr=[1.0], momentum=0.0, weight_decay=0.0)
        common = {"fp16_init_scale": scale, "amp_init_scale": 128, "amp_scale_window": None, "min_loss_scale": 1e-4}
        cfg = Namespace(optimizer=plain, common=Namespace(**common))
        parameter = torch.nn.Parameter(torch.ones(1))
        built = AMPOptimizer(cfg, [parameter], SGD(plain, [parameter]))
        built._grad_scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)
        return built

    def steps(one: Any, number: int) -> None:
        for _ in range(number):
            one.backward(one.optimizer.param_groups[0]["params"][0].sum())
            one.clip_grad_norm(0.0)
            one.step()

    first, second = optimizer(16.0), optimizer(2.0)
    steps(first, 5)  # raised after three
    state = first.state_dict()
    check_contents({**checkpoint(), "last_optimizer_state": state}, "a.pt")
    second.load_state_dict(state)
    assert second.scaler.get_scale() == 32
    steps(second, 1)
    assert second.scaler.get_scale() == 64
    # One that scales nothing, where there is no GPU, and checkpoints without it.
    second._grad_scaler = torch.amp.GradScaler("cpu", enabled=False)
    second.load_state_dict(state)
    assert "loss_scaler" not in second.state_dict()
    first.load_state_dict({key: value for key, value in state.items() if key != "loss_scaler"})
    assert first.scaler.get_scale() == 32


@pytest.mark.parametrize("faulty", [3, [True], ["4"], None])
def test_a_faulty_scaler_is_refused(faulty: Any) -> None:
    optimizer = {"state": {}, "param_groups": [{"params": [0]}]}
    with pytest.raises(UserError, match=r"^a\.pt: last_optimizer_state\.loss_scaler must be a list of numbers, but"):
        check_contents({**checkpoint(), "last_optimizer_state": {**optimizer, "loss_scaler": faulty}}, "a.pt")


@pytest.mark.parametrize("faulty", [torch.ones(2), [1.0], [torch.ones(2).half()], None])
def test_faulty_weights_are_refused(faulty: Any) -> None:
    optimizer = {"state": {}, "param_groups": [{"params": [0]}]}
    check_contents({**checkpoint(), "last_optimizer_state": {**optimizer, "fp32_params": [torch.ones(2)]}}, "a.pt")
    with pytest.raises(UserError, match=r"^a\.pt: last_optimizer_state\.fp32_params must be a list of FP32 tensors"):
        check_contents({**checkpoint(), "last_optimizer_state": {**optimizer, "fp32_params": faulty}}, "a.pt")
