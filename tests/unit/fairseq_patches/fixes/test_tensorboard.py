"""TensorBoard: a training that is killed and goes on leaves one curve, with one value an update."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fairseq import checkpoint_utils
from fairseq.logging import progress_bar
from support.curves import curve
from support.restarts import train_until
from support.trainings import binarised_text

from deepnmt.fairseq_patches.fixes import tensorboard

OPTIONS = ["--max-tokens=80", "--save-interval-updates=4", "--no-epoch-checkpoints", "--log-interval=1"]
OPTIONS += ["--encoder-layers=1", "--decoder-layers=1", "--log-format=simple", "--max-update=14"]


def test_two_files_of_one_second_have_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1.7e9)
    monkeypatch.setattr(progress_bar, "_tensorboard_writers", {})
    bar = progress_bar.TensorboardProgressBarWrapper(SimpleNamespace(log=lambda *args, **kwargs: None), str(tmp_path))
    for first in (1, 5):
        monkeypatch.setattr(tensorboard, "_first_update", first)
        for update in range(first, 7):
            bar.log({"loss": first * 100 + update}, tag="train", step=update)
        progress_bar._tensorboard_writers.popitem()[1].close()
    assert len(list((tmp_path / "train").iterdir())) == 2
    assert curve(tmp_path / "train", "loss") == {1: 101, 2: 102, 3: 103, 4: 104, 5: 505, 6: 506}


def test_one_value_an_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [str(binarised_text(tmp_path))]
    board, once = tmp_path / "board", tmp_path / "once"
    on_disk: list[tuple[int, int]] = []
    stock = checkpoint_utils.torch_persistent_save

    def save(state: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        logged = max(curve(board / "train_inner", "loss"))
        on_disk.append((state["optimizer_history"][-1]["num_updates"], logged))
        stock(state, *args, **kwargs)

    monkeypatch.setattr(checkpoint_utils, "torch_persistent_save", save)
    more = [*OPTIONS, f"--tensorboard-logdir={board}"]
    # Saved at 4 and 8; the updates 5, 6 and 7, and 9 and 10, are made twice.
    for stop in (7, 10, None):
        train_until(monkeypatch, data, tmp_path / "save", *more, killed_at=stop)
    assert on_disk
    assert all(saved == logged for saved, logged in on_disk)
    monkeypatch.setattr(checkpoint_utils, "torch_persistent_save", stock)
    train_until(monkeypatch, data, tmp_path / "save2", *OPTIONS, f"--tensorboard-logdir={once}")
    for run in ("train_inner", "valid"):
        assert len(list((board / run).iterdir())) == 3
        assert curve(board / run, "loss") == curve(once / run, "loss")
    assert list(curve(board / "train_inner", "loss")) == list(range(1, 15))
    assert {4, 8, 12, 14} <= set(curve(board / "valid", "loss"))
