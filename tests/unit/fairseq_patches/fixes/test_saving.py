"""Which checkpoints are written and kept, by a trainer that trains nothing, against the help texts of the options."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.trainer import Trainer
from fairseq_cli import train
from support.restarts import forget

import deepnmt
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.fairseq_patches.fixes.saving import best_kept

deepnmt.register()

NAN = math.nan


class Saver(Trainer):
    """What `save_checkpoint` asks of a trainer; its checkpoints hold no model."""

    data_parallel_rank = 0
    checkpoint_suffix = ""
    should_save_checkpoint_on_current_rank = True
    task = SimpleNamespace()

    def __init__(self, suffix: str = "") -> None:
        self.checkpoint_suffix = suffix
        self.updates = 0

    def get_num_updates(self) -> int:
        return self.updates

    def consolidate_optimizer(self) -> None:
        pass

    def save_checkpoint(self, path: str, extra_state: dict[str, Any]) -> str:
        state = {"model": {"x": torch.zeros(1)}, "cfg": {"task": {"a": 1}, "model": {"_name": "transformer"}}}
        torch.save({**state, "optimizer_history": [{"num_updates": self.updates}], "extra_state": extra_state}, path)
        return path


@pytest.fixture(autouse=True)
def new_process() -> Iterator[None]:
    forget()
    yield
    forget()


def save(
    folder: Path,
    scores: list[Optional[float]],
    every: int = 10,
    end_every: int = 10,
    trainer: Optional[Saver] = None,
    **options: Any,
) -> list[str]:
    """Save after each `every` updates; an epoch has `end_every`. Return the names that are left."""
    cfg, trainer = CheckpointConfig(save_dir=str(folder), **options), trainer or Saver()
    for score in scores:
        trainer.updates += every
        ends = trainer.updates % end_every == 0
        epoch = math.ceil(trainer.updates / end_every)
        position = {"epoch": epoch + ends, "iterations_in_epoch": 0 if ends else 1}
        iterator = SimpleNamespace(epoch=epoch, end_of_epoch=lambda ends=ends: ends, state_dict=lambda p=position: p)
        checkpoint_utils.save_checkpoint(cfg, trainer, iterator, score)
    return sorted(path.name for path in folder.iterdir())


def kept_scores(folder: Path, metric: str = "loss", suffix: str = "", maximize: bool = False) -> list[float]:
    cfg = CheckpointConfig(
        save_dir=str(folder), best_checkpoint_metric=metric, maximize_best_checkpoint_metric=maximize
    )
    return [each.score for each in best_kept(cfg, suffix)]


def best_score(folder: Path) -> float:
    return float(CheckpointState.of(folder / "checkpoint_best.pt").extra("val_loss"))


@pytest.mark.parametrize(
    ("scores", "maximize", "right"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], False, [1.0, 2.0, 3.0]),  # the first is the best
        ([5.0, 4.0, 3.0, 2.0, 1.0], False, [1.0, 2.0, 3.0]),
        ([3.0, 1.0, 5.0, 2.0, 4.0], True, [5.0, 4.0, 3.0]),
        ([2.0, 2.0, 2.0, 2.0], False, [2.0, 2.0, 2.0]),  # equal ones
        ([2.0003, 2.0001, 2.0004, 2.0002], False, [2.0001, 2.0002, 2.0003]),  # the same three digits
        ([-1.0, -3.0, -2.0, -4.0], True, [-1.0, -2.0, -3.0]),  # below zero
        ([NAN, 4.0, math.inf, 5.0], False, [4.0, 5.0]),
        ([7.0, None, 6.0], False, [6.0, 7.0]),  # without a validation
    ],
)
def test_the_best_three(tmp_path: Path, scores: list[Optional[float]], maximize: bool, right: list[float]) -> None:
    save(tmp_path, scores, keep_best_checkpoints=3, maximize_best_checkpoint_metric=maximize)
    assert kept_scores(tmp_path, maximize=maximize) == right


def test_of_equal_scores_the_newest_is_kept(tmp_path: Path) -> None:
    save(tmp_path, [2.0] * 5, keep_best_checkpoints=2)
    kept = [CheckpointState.of(path).updates() for path in tmp_path.glob("checkpoint.best_*")]
    assert sorted(kept) == [40, 50]


def test_the_best_are_kept_across_a_restart(tmp_path: Path) -> None:
    save(tmp_path, [3.0, 4.0], keep_best_checkpoints=2)
    names = sorted(path.name for path in tmp_path.glob("checkpoint.best_*"))
    # Killed after it was kept as one of the best, and before it was the last one: the same update comes again.
    trainer = Saver()
    trainer.updates = 10
    save(tmp_path, [4.0], trainer=trainer, keep_best_checkpoints=2)
    assert sorted(path.name for path in tmp_path.glob("checkpoint.best_*")) == names
    save(tmp_path, [3.5], trainer=trainer, keep_best_checkpoints=2)
    assert kept_scores(tmp_path) == [3.0, 3.5]


def test_names_of_other_metrics_and_suffixes_are_left_alone(tmp_path: Path) -> None:
    options = {"keep_best_checkpoints": 1, "no_epoch_checkpoints": True, "no_last_checkpoints": True}
    save(tmp_path, [3.0], best_checkpoint_metric="a.b+", **options)
    save(tmp_path, [5.0], best_checkpoint_metric="aXb+", **options)
    save(tmp_path, [4.0, 2.0], trainer=Saver("-s"), best_checkpoint_metric="a.b+", **options)
    assert kept_scores(tmp_path, "a.b+") == [3.0]
    assert kept_scores(tmp_path, "aXb+") == [5.0]
    assert kept_scores(tmp_path, "a.b+", "-s") == [2.0]


def test_nan_is_never_the_best(tmp_path: Path) -> None:
    save(tmp_path, [3.0, NAN, 4.0])
    assert best_score(tmp_path) == 3.0
    assert CheckpointState.of(tmp_path / "checkpoint_last.pt").best() == 3.0
    forget()
    save(tmp_path, [NAN])
    assert not CheckpointState.of(tmp_path / "checkpoint_last.pt").has_best()


@pytest.mark.parametrize(("maximize", "best"), [(False, 3.0), (True, 5.0)])
def test_best(tmp_path: Path, maximize: bool, best: float) -> None:
    save(tmp_path, [4.0, 3.0, 5.0, 4.0], maximize_best_checkpoint_metric=maximize)
    assert best_score(tmp_path) == best


@pytest.mark.parametrize(
    ("options", "right"),
    [
        # Updates 5 to 30, epochs of 15.
        ({}, ["1", "2", "best", "last"]),
        ({"no_epoch_checkpoints": True}, ["best", "last"]),
        ({"no_last_checkpoints": True}, ["1", "2", "best"]),
        ({"save_interval": 2}, ["2", "best", "last"]),
        ({"keep_last_epochs": 1}, ["2", "best", "last"]),
        ({"no_save": True}, []),
        (
            {"save_interval_updates": 5, "no_epoch_checkpoints": True},
            ["1_10", "1_15", "1_5", "2_20", "2_25", "2_30", "best", "last"],
        ),
        ({"save_interval_updates": 15}, ["1", "1_15", "2", "2_30", "best", "last"]),
        (
            {"save_interval_updates": 5, "no_epoch_checkpoints": True, "keep_interval_updates": 2},
            ["2_25", "2_30", "best", "last"],
        ),
        (
            {"save_interval_updates": 5, "no_epoch_checkpoints": True, "keep_interval_updates": 1}
            | {"keep_interval_updates_pattern": 10},
            ["1_10", "2_20", "2_25", "2_30", "best", "last"],
        ),
    ],
)
def test_intervals_and_epochs(tmp_path: Path, options: dict[str, Any], right: list[str]) -> None:
    names = save(tmp_path, [9.0, 8.0, 7.0, 6.0, 5.0, 4.0], every=5, end_every=15, **options)
    short = [name.removeprefix("checkpoint").removeprefix("_").removesuffix(".pt") for name in names]
    assert sorted(short) == sorted(right)


def test_a_suffix_is_in_every_name(tmp_path: Path) -> None:
    options: dict[str, Any] = {"keep_last_epochs": 1, "keep_interval_updates": 1, "save_interval_updates": 10}
    names = save(tmp_path, [3.0, 2.0], trainer=Saver("-part.1"), keep_best_checkpoints=1, **options)
    ends = ["2", "_2_20", "_best", "_last"]
    assert [name for name in names if ".best_" not in name] == [f"checkpoint{end}-part.1.pt" for end in ends]
    assert len(names) == 5


@pytest.mark.parametrize(("maximize", "scores"), [(False, [NAN, 5.0, 4.0]), (True, [NAN, 4.0, 5.0])])
def test_patience_after_nan(maximize: bool, scores: list[float]) -> None:
    checkpoint = CheckpointConfig(patience=2, maximize_best_checkpoint_metric=maximize)
    cfg = SimpleNamespace(checkpoint=checkpoint)
    assert not any(train.should_stop_early(cfg, score) for score in scores)
    assert train.should_stop_early.best == scores[-1]
    assert [train.should_stop_early(cfg, NAN) for _ in range(2)] == [False, True]


@pytest.mark.parametrize(("updates", "saved"), [(10, True), (15, False), (20, False)])
def test_an_interval_before_the_first_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, updates: int, saved: bool
) -> None:
    calls = []
    monkeypatch.setattr(checkpoint_utils, "save_checkpoint", lambda cfg, trainer, iterator, loss: calls.append(loss))
    monkeypatch.setattr(train, "validate", lambda *_: [2.5])
    cfg: Any = SimpleNamespace(
        checkpoint=CheckpointConfig(save_dir=str(tmp_path), save_interval_updates=10),
        dataset=SimpleNamespace(
            validate_after_updates=20, validate_interval=1, validate_interval_updates=0, disable_validation=False
        ),
        optimization=SimpleNamespace(max_update=0, stop_time_hours=0),
    )
    trainer = Saver()
    trainer.updates = updates
    monkeypatch.setattr(trainer, "cumulative_training_time", lambda: 0.0, raising=False)
    losses, stop = train.validate_and_save(cfg, trainer, SimpleNamespace(), SimpleNamespace(epoch=1), ["valid"], False)
    # fairseq itself saves and validates from the twentieth update on.
    assert calls == ([None] if saved else [2.5] if updates == 20 else [])
    assert losses == [2.5 if updates == 20 else None]
    assert not stop
