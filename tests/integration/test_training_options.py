"""What options of fairseq-train do that no other test names: each is given once, and compared with its help text."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from fairseq.optim.dynamic_loss_scaler import DynamicLossScaler
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer
from support.checkpoints import load
from support.restarts import forget
from support.trainings import binarised_text, fairseq_train

from deepnmt.errors import UserError

SMALL = ["--encoder-layers=1", "--decoder-layers=1", "--batch-size=8", "--seed=1", "--no-epoch-checkpoints"]
HALF = ["--fp16", "--fp16-no-flatten-grads"]


class Seen(NamedTuple):
    """What a training has done: of each update its rate, loss, loss scale and the sentences of its first batch."""

    rates: list[float]
    losses: list[float]
    scales: list[float]
    sentences: list[list[int]]
    valid_seeds: list[int]
    valid_sizes: list[int]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 pairs to train on: five batches an epoch."""
    return binarised_text(tmp_path_factory.mktemp("text"))


def train(data: Path, save: Path, *more: str, overflowing: Sequence[int] = ()) -> Seen:
    """Train in this process.

    Args:
        data: the data folder
        save: of the checkpoints
        more: options
        overflowing: batches whose gradients are infinite
    """
    seen = Seen([], [], [], [], [], [])
    step, valid_step, check = Trainer.train_step, FairseqTask.valid_step, DynamicLossScaler.check_overflow

    def train_step(self: Any, samples: Any, *args: Any, **kwargs: Any) -> Any:
        rate = self.get_lr()
        log = step(self, samples, *args, **kwargs)
        seen.sentences.append(sorted(samples[0]["id"].tolist()))
        scaler = getattr(self.optimizer, "scaler", None)
        seen.scales.append(float(scaler.loss_scale) if scaler else 1.0)
        if log is not None:
            seen.rates.append(rate)
            seen.losses.append(float(log["loss"]))
        return log

    def valid(self: Any, sample: Any, *args: Any, **kwargs: Any) -> Any:
        seen.valid_seeds.append(torch.initial_seed())
        seen.valid_sizes.append(sample["nsentences"])
        return valid_step(self, sample, *args, **kwargs)

    def check_overflow(self: Any, grad_norm: Any) -> None:
        check(self, math.inf if len(seen.scales) in overflowing else grad_norm)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "train_step", train_step)
        patch.setattr(FairseqTask, "valid_step", valid)
        patch.setattr(DynamicLossScaler, "check_overflow", check_overflow)
        try:
            fairseq_train(patch, [str(data)], save, *SMALL, *more)
        finally:
            forget()
    return seen


def test_the_scale_of_the_loss_grows_and_shrinks(data: Path, tmp_path: Path) -> None:
    half = [*HALF, "--max-epoch=2", "--no-save", "--disable-validation", "--fp16-init-scale=8"]
    # Twice as large after each two updates, and after two again from an overflow on.
    assert train(data, tmp_path, *half, "--fp16-scale-window=2").scales == [8, 16, 16, 32, 32, 64, 64, 128, 128, 256]
    grown = train(data, tmp_path, *half, "--fp16-scale-window=2", overflowing=[3]).scales
    assert grown == [8, 16, 16, 8, 8, 16, 16, 32, 32, 64]
    # Of four batches since the last change one may overflow, and of five two, but not three of six.
    tolerant = train(data, tmp_path, *half, "--fp16-scale-tolerance=0.5", overflowing=[3, 4, 5]).scales
    assert tolerant == [8, 8, 8, 8, 8, 4, 4, 4, 4, 4]
    assert train(data, tmp_path, *half, overflowing=[3, 4, 5]).scales == [8, 8, 8, 4, 2, 1, 1, 1, 1, 1]
    lowest = train(data, tmp_path, *half, "--threshold-loss-scale=3", overflowing=[3, 4, 5]).scales
    assert lowest == [8, 8, 8, 4, 3, 3, 3, 3, 3, 3]


def test_rates(data: Path, tmp_path: Path) -> None:
    plain = ["--no-save", "--disable-validation", "--lr-scheduler=fixed", "--lr=0.1", "--warmup-updates=0"]
    annealed = train(data, tmp_path, *plain, "--force-anneal=2", "--lr-shrink=0.5", "--max-epoch=4").rates
    assert annealed[::5] == pytest.approx([0.1, 0.05, 0.025, 0.0125])
    # An epoch is trained at the last rate.
    stopped = train(data, tmp_path, *plain, "--force-anneal=2", "--lr-shrink=0.5", "--stop-min-lr=0.025").rates
    assert stopped[::5] == pytest.approx([0.1, 0.05, 0.025])


def test_order_of_batches(data: Path, tmp_path: Path) -> None:
    plain = ["--no-save", "--disable-validation", "--max-epoch=4"]
    first = train(data, tmp_path, *plain)
    epochs = [first.sentences[start : start + 5] for start in range(0, 20, 5)]
    assert epochs[0] != epochs[1] != epochs[2]
    orders = train(data, tmp_path, *plain, "--curriculum=2").sentences
    by_length, second, third, fourth = (orders[start : start + 5] for start in range(0, 20, 5))
    assert by_length == second
    assert third != by_length
    assert fourth != third
    assert sorted(by_length) == sorted(third)
    again = train(data, tmp_path, *plain, "--data-buffer-size=0", "--debug-param-names")
    assert again.losses == first.losses
    # The same batches in another order in each epoch, or other batches.
    assert sorted(epochs[0]) == sorted(epochs[1])
    anew = train(data, tmp_path, *plain, "--update-epoch-batch-itr=True").sentences
    assert sorted(anew[:5]) != sorted(anew[5:10])
    assert [sorted(chain(*anew[start : start + 5])) for start in (0, 5)] == [list(range(40))] * 2


def test_validation(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ["--no-save", "--max-epoch=1"]
    assert train(data, tmp_path, *plain, "--batch-size-valid=3", "--fixed-validation-seed=77")[4:] == (
        [77] * 3,
        [3, 3, 2],
    )
    assert set(train(data, tmp_path, *plain).valid_seeds) != {77}
    for name in ("bin", "idx"):
        for language in "ab":
            (tmp_path / f"valid1.a-b.{language}.{name}").write_bytes(
                (data / f"valid.a-b.{language}.{name}").read_bytes()
            )
    for path in data.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(UserError, match=r"^--valid-subset"):
        train(tmp_path, tmp_path / "save", *plain)
    assert train(tmp_path, tmp_path / "save", *plain, "--ignore-unused-valid-subsets").valid_sizes == [8]


def test_log_file_and_names_of_parameters(data: Path, tmp_path: Path) -> None:
    handlers = list(logging.getLogger("fairseq_cli.train").handlers)
    train(data, tmp_path, "--max-epoch=1", f"--log-file={tmp_path / 'log'}", "--debug-param-names")
    for logger in (logging.getLogger("fairseq_cli.train"), logging.getLogger()):
        for handler in [each for each in logger.handlers if each not in handlers]:
            if isinstance(handler, logging.FileHandler):
                logger.removeHandler(handler)
    assert "done training" in (tmp_path / "log").read_text("utf-8")


def test_resets(data: Path, tmp_path: Path) -> None:
    plain = ["--lr-scheduler=reduce_lr_on_plateau", "--lr=0.1", "--lr-shrink=0.5", "--lr-patience=0"]
    plain += ["--lr-threshold=0.99", "--warmup-updates=0"]
    train(data, tmp_path, *plain, "--max-epoch=3")
    # No loss is a hundredth of the first one. After a reset the next one is the best so far, and the rate is that of
    # the optimizer, which the end of the last epoch had not lowered yet.
    for name, more, right in (
        ("on", [f"--restore-file={tmp_path}/checkpoint_last.pt"], [0.025, 0.0125]),
        ("anew", [f"--continue-once={tmp_path}/checkpoint_last.pt", "--reset-lr-scheduler"], [0.05, 0.05]),
    ):
        assert train(data, tmp_path / name, *plain, "--max-epoch=5", *more).rates[::5] == pytest.approx(right)
    state = load(tmp_path / "checkpoint_last.pt")
    state["extra_state"]["best"] = 0.5
    torch.save(state, tmp_path / "good.pt")
    found = []
    for number, more in enumerate(([], ["--reset-meters"])):
        train(data, tmp_path / f"{number}", *plain, "--max-epoch=4", f"--restore-file={tmp_path / 'good.pt'}", *more)
        found.append(load(tmp_path / f"{number}" / "checkpoint_last.pt")["extra_state"]["best"])
    assert found[0] == 0.5
    assert found[1] > 1


def test_moving_averages_that_begin_elsewhere(data: Path, tmp_path: Path) -> None:
    plain = ["--store-ema", "--max-update=2", "--disable-validation", "--ema-decay=1"]
    train(data, tmp_path / "seed", *plain, "--seed=5", "--ema-decay=0.5")
    seed = tmp_path / "seed" / "checkpoint_last.pt"
    train(data, tmp_path / "on", *plain, f"--ema-seed-model={seed}")
    # With a decay of 1, the average never leaves what it began with.
    began, kept = load(seed)["extra_state"]["ema"], load(tmp_path / "on" / "checkpoint_last.pt")["extra_state"]["ema"]
    assert all(torch.equal(began[name], kept[name]) for name in began)
    train(data, tmp_path / "half", *plain, *HALF, "--ema-fp32", "--ema-decay=0.5")
    extra = load(tmp_path / "half" / "checkpoint_last.pt")["extra_state"]
    name = "decoder.layers.0.fc1.weight"
    average, exact = extra["ema"][name], extra["ema_fp32_params"][name]
    assert torch.equal(average, exact.half().float())
    assert not torch.equal(average, exact)
    train(data, tmp_path / "plain", "--max-update=1", "--disable-validation")
    for path, message in (
        (tmp_path / "none.pt", r"none\.pt"),
        (
            tmp_path / "plain" / "checkpoint_last.pt",
            "^--ema-seed-model must be of a training with --store-ema, but ",
        ),
    ):
        with pytest.raises(UserError, match=message):
            train(data, tmp_path / "none", *plain, f"--ema-seed-model={path}")


def test_adaptive_softmax(data: Path, tmp_path: Path) -> None:
    train(
        data, tmp_path, "--max-update=1", "--disable-validation", "--criterion=adaptive_loss",
        "--adaptive-softmax-cutoff=6,9", "--adaptive-softmax-factor=2", "--ddp-backend=legacy_ddp",
    )  # fmt: skip
    model = load(tmp_path / "checkpoint_last.pt")["model"]
    tails = [model[f"decoder.adaptive_softmax.tail.{number}.0.weight"].shape for number in (0, 1)]
    # The width is 16, and each part is narrower than the one before by the factor.
    assert tails == [(8, 16), (4, 16)]
