"""The second run of an update that was not finite: its batches, precisions, workers, and what stays after it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import options as fairseq_options
from fairseq import trainer as fairseq_trainer
from fairseq.trainer import Trainer
from fairseq_cli import preprocess
from support import warm
from support.failing_training import (
    DLCL,
    INF,
    NAN,
    Criterion,
    Make,
    Task,
    error_of,
    plant,
    sample,
    scale_gradient,
    trainer_maker,
)
from support.models import ROOT, build
from support.processes import finish
from torch import Tensor, nn

from deepnmt.checkpoints.file import read
from deepnmt.training import nonfinite

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.cuda.amp:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*CUDA is not available:UserWarning"),
]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return trainer_maker(tmp_path)


def test_what_is_only_logged_is_not_looked_at(make: Make) -> None:
    class Logging(Criterion):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            loss, size, log = super().forward(*args, **kwargs)
            return loss, size, {**log, "nll_loss": loss * NAN}

    model = build(DLCL).float()
    scale_gradient(model, "encoder.layers.2.fc1", INF)
    assert "gradients are not finite, first in encoder.layers.2.fc1 (of its" in error_of(make(model, Logging()))


@pytest.mark.parametrize("ema", [False, True], ids=["plain", "ema"])
def test_second_run_is_that_of_the_update(make: Make, monkeypatch: pytest.MonkeyPatch, ema: bool) -> None:
    stock = Task.train_step
    seen: list[tuple[Any, ...]] = []

    def train_step(self: Task, *, ema_model: Any = None, **kwargs: Any) -> Any:
        ids = kwargs["sample"]["id"].tolist()
        seen.append((ids, kwargs["update_num"], kwargs["ignore_grad"], ema_model, torch.get_rng_state().tolist()))
        return stock(self, **kwargs)

    monkeypatch.setattr(Task, "train_step", train_step)
    monkeypatch.setattr(Task, "uses_ema", True, raising=False)
    trainer = make(build({**DLCL, "dropout": 0.1}).float(), ema={"store_ema": ema})
    trainer.reset_dummy_batch(sample())
    trainer.train_step([sample()])
    plant(trainer.get_model(), "encoder.layers.1.fc1", NAN)
    # An empty batch is what a worker gets when the others have one more; alone, it is run and counts nothing.
    error_of(trainer, [{**sample(), "id": torch.tensor([7, 8])}, {**sample(), "id": torch.tensor([5, 6])}, {}])
    error_of(trainer, [{}])
    assert len(seen) == 7
    assert seen[1:3] == seen[3:5]
    assert [(ids, number, ignored) for ids, number, ignored, *_ in seen[3:5]] == [
        ([7, 8], 1, False),
        ([5, 6], 1, False),
    ]
    assert seen[5] == seen[6]
    assert seen[6][:3] == ([0, 1], 1, True)
    assert (seen[3][3] is not None) == ema


def test_the_failing_batch_is_found_with_its_own_dropout(make: Make) -> None:
    model = build({**DLCL, "dropout": 0.5}).float()
    seen: list[Tensor] = []

    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        seen.append(args[0].detach().clone())
        second = seen[1] if len(seen) > 1 else None
        # Watched, a sublayer's sums have another order.
        return output * NAN if second is not None and args[0].allclose(second, atol=1e-4) else output

    model.encoder.layers[2].fc1.register_forward_hook(hook)
    text = error_of(make(model), [sample() for _ in range(3)])
    assert "batch 2 of 3: activations are not finite, first in encoder.layers.2.fc1: NaN" in text
    assert not seen[0].allclose(seen[1], atol=1e-1)


@pytest.mark.parametrize(
    ("gradient", "found"),
    [
        (2e38, "gradients are not finite when summed over the batches of the update, first in {name}: Inf, no finite"),
        (1e30, "gradients are finite, but their norm overflows; the largest belongs to {name}: largest finite magn"),
    ],
)
def test_sum_and_norm_of_gradients(make: Make, gradient: float, found: str) -> None:
    model = build(DLCL).float()
    name = "decoder.layers.0.fc2.bias"
    model.get_parameter(name).register_hook(lambda own: torch.full_like(own, gradient))
    assert f"update 1: {found.format(name=name)}" in error_of(make(model), [sample(), sample()])


def test_nothing_is_found(make: Make) -> None:
    model = build(DLCL).float()
    calls: list[int] = []

    def hook(module: nn.Module, args: Any, output: Tensor) -> Tensor:
        calls.append(1)
        return output * NAN if len(calls) == 1 else output

    model.encoder.layers[0].fc1.register_forward_hook(hook)
    text = error_of(make(model))
    assert "update 1: gradients are Nan/Inf, but the same batches, run again with the same seed, give finite" in text


HALF = {"fp16": True, "fp16_no_flatten_grads": True}


@pytest.mark.parametrize("more", [{}, {"memory_efficient_fp16": True}], ids=["fp16", "memory-efficient"])
def test_loss_scale(make: Make, more: dict[str, Any]) -> None:
    name = "decoder.layers.1.fc2"
    for scale in (1, 4096):
        model = build(DLCL).float()
        scale_gradient(model, name, 1000.0)
        trainer = make(model, common={**HALF, **more, "fp16_init_scale": scale, "min_loss_scale": scale / 2})
        if scale == 1:
            assert trainer.train_step([sample()])["loss"] > 0
            continue
        text = error_of(trainer)
        where = rf"{re.escape(name)} \(of its \w+\)"
        assert re.search(rf"gradients overflow in FP16 at loss scale 4096, first in {where}: (NaN and )?Inf", text)
        assert text.endswith("--clip-norm, or use --bf16")


@pytest.mark.parametrize("precision", ["bf16", "amp"])
def test_gradient_in_other_precisions(make: Make, precision: str) -> None:
    model = build(DLCL).float()
    model.encoder.layers[0].fc1.bias.register_hook(lambda gradient: gradient * INF)
    trainer = make(model, common={precision: True, "fp16_no_flatten_grads": True, "min_loss_scale": 2.0})
    if precision == "amp":
        trainer.optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    found = error_of(trainer)
    text = "gradients overflow in FP16 at loss scale 4," if precision == "amp" else "gradients are not finite,"
    assert f"update 1: {text} first in encoder.layers.0.fc1 (of its bias): " in found
    assert ("--bf16" in found) == (precision == "amp")


def test_activation_in_fp16(make: Make) -> None:
    model = build(DLCL).float()
    with torch.no_grad():
        model.encoder.layers[1].fc1.bias.fill_(60000.0)
        model.encoder.layers[1].fc2.weight.fill_(0.5)
    text = error_of(make(model, common={**HALF, "fp16_init_scale": 2, "min_loss_scale": 1.0}))
    assert "activations are not finite, first in encoder.layers.1.fc2: Inf, no finite value;" in text


def test_usual_overflow_only_lowers_the_scale(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # fairseq puts the norm of a skipped update on the GPU.
    monkeypatch.setattr(Tensor, "cuda", lambda self: self)
    monkeypatch.delattr(nonfinite, "Watch")
    trainer = make(common={**HALF, "fp16_init_scale": 2**20})
    trainer.train_step([sample()])
    assert trainer.get_num_updates() == 0
    assert trainer.optimizer.scaler.loss_scale == 2**19


@pytest.mark.parametrize("norms", [(1.0, 2.0), (NAN, NAN)], ids=str)
def test_workers_that_disagree(make: Make, monkeypatch: pytest.MonkeyPatch, norms: tuple[float, float]) -> None:
    trainer = make()
    plant(trainer.get_model(), "encoder.layers.1.fc1", NAN)
    trainer._grad_norm_buf = torch.zeros(2, dtype=torch.float64)
    monkeypatch.setattr(
        fairseq_trainer.distributed_utils, "all_reduce", lambda buffer, group: buffer.copy_(torch.tensor(norms))
    )
    if norms[0] != norms[0]:
        assert "first in encoder.layers.1.fc1: NaN" in error_of(trainer)
        return
    with pytest.raises(FloatingPointError, match="gradients are inconsistent between workers"):
        trainer.train_step([sample()])


def test_norms_of_an_earlier_update_say_nothing(make: Make) -> None:
    # With FP16 the update fails before the workers' norms are compared.
    trainer = make(common={**HALF, "fp16_init_scale": 2, "min_loss_scale": 1.0})
    plant(trainer.get_model(), "encoder.layers.1.fc1", NAN)
    trainer._grad_norm_buf = torch.ones(2, dtype=torch.float64)
    assert "first in encoder.layers.1.fc1: NaN" in error_of(trainer)


def test_the_worker_that_found_it_is_named(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = make()
    trainer.train_step([sample()])
    monkeypatch.setattr(Trainer, "data_parallel_world_size", 2)
    monkeypatch.setattr(Trainer, "data_parallel_process_group", None)
    monkeypatch.setattr(Trainer, "data_parallel_rank", 0)
    given: list[str] = []

    def gather(result: list[str], own: str, group: Any) -> None:
        given.append(own)
        result[:] = [own, "worker 1: the reason"]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    error = FloatingPointError("gradients are Nan/Inf")
    assert "update 2: worker 1: the reason; " in nonfinite.diagnosis(trainer, [sample()], error)
    plant(trainer.get_model(), "encoder.layers.1.fc1", NAN)
    text = nonfinite.diagnosis(trainer, [sample()], error)
    assert "update 2: worker 0: activations are not finite, first in encoder.layers.1.fc1: NaN" in text
    # Workers that do not sum their gradients in each update are not waited for.
    trainer.cfg.optimization.use_bmuf = True
    assert "update 2: activations are not finite, first in" in nonfinite.diagnosis(trainer, [sample()], error)
    trainer.cfg.optimization.use_bmuf = False
    trainer.cfg.distributed_training.ddp_backend = "slowmo"
    assert "update 2: activations are not finite, first in" in nonfinite.diagnosis(trainer, [sample()], error)
    assert len(given) == 2
    assert given[0] == ""
    assert given[1].startswith("worker 0: ")


def test_no_hook_stays_and_the_checkpoint_is_that_before_the_update(make: Make, tmp_path: Path) -> None:
    trainer = make()
    model = trainer.get_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    plant(model, "encoder.layers.1.fc1", NAN)
    planted = model.encoder.layers[1].fc1
    error_of(trainer)
    for module in [*model.modules(), *trainer.get_criterion().modules()]:
        assert len(module._forward_hooks) == (module is planted)
        assert not module._forward_pre_hooks
    assert not any(parameter._backward_hooks for parameter in model.parameters())
    saved = torch.load(tmp_path / "crash.pt", weights_only=True)["model"]  # of a trainer without options
    assert all(saved[name].equal(tensor) and tensor.equal(model.state_dict()[name]) for name, tensor in before.items())


def train(data: Path, save: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Train a small model; it has to end with one line of error, which is all that it says on stderr beside the log."""
    command = [
        str(warm.program("fairseq-train")), str(data), "--user-dir", str(ROOT / "deepnmt"), "--cpu",
        "--arch", "dlcl_transformer_tiny", "--encoder-embed-dim", "16", "--decoder-embed-dim", "16",
        "--optimizer", "adam", "--lr-scheduler", "fixed", "--batch-size", "4",
        "--num-workers", "0", "--disable-validation", "--save-interval-updates", "1", "--save-dir", str(save),
        "--max-update", "9", *options,
    ]  # fmt: skip
    done = finish(command, env={**os.environ, **warm.environment()})
    assert done.returncode == 2, done.stdout[-2000:] + done.stderr[-4000:]
    assert "Traceback" not in done.stdout + done.stderr
    assert "Detected nan/inf grad norm" not in done.stdout + done.stderr
    return done


def error_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("deepnmt: error: ")
    assert sum("error:" in line for line in lines) == 1
    return lines[-1]


def test_fairseq_train_that_diverges_and_one_from_a_broken_checkpoint(tmp_path: Path) -> None:
    for language in ("de", "en"):
        text = "".join(f"a{index % 3} b{index % 5} c{index % 2}\n" for index in range(40))
        (tmp_path / f"train.{language}").write_text(text, encoding="utf-8")
    arguments = ["-s", "de", "-t", "en", "--trainpref", str(tmp_path / "train"), "--destdir", str(tmp_path / "data")]
    preprocess.main(fairseq_options.get_preprocessing_parser().parse_args([*arguments, "--joined-dictionary"]))

    line = error_line(train(tmp_path / "data", tmp_path / "save", "--lr", "1e30"))
    where = "first in encoder, on the way to encoder.layers.0"
    assert f"training stopped at update 2: activations are not finite, {where}: Inf" in line
    last = tmp_path / "save" / "checkpoint_last.pt"
    state = read(last)
    assert state["optimizer_history"][-1]["num_updates"] == 1
    assert all(tensor.isfinite().all() for tensor in state["model"].values())

    name = "decoder.layers.1.fc2.weight"
    state["model"][name][0, 0] = NAN
    torch.save(state, tmp_path / "broken.pt")
    kept = last.read_bytes()
    done = train(
        tmp_path / "data", tmp_path / "save", "--lr", "1e-3", "--restore-file", str(tmp_path / "broken.pt"),
    )  # fmt: skip
    assert f"broken.pt: model.{name} must be finite numbers, but has NaN or infinity" in error_line(done)
    assert last.read_bytes() == kept
