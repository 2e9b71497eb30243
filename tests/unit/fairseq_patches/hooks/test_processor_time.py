"""Checkpoints record processor time: once for each update that they hold, through kills and further starts."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from support.restarts import train_until
from support.trainings import DUMMY

from deepnmt.checkpoints.state import PROCESSOR_SECONDS, CheckpointState
from deepnmt.fairseq_patches.hooks import processor_time

OPTIONS = [*DUMMY, "--encoder-layers=1", "--decoder-layers=1", "--save-interval-updates=2"]


def test_seconds_survive_a_kill_and_do_not_grow_without_updates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(seconds: float, most: int, *more: str, killed_at: int | None = None, save: Path = tmp_path) -> float:
        # Each process has used so much when it saves.
        monkeypatch.setattr(processor_time, "time", SimpleNamespace(process_time=lambda: seconds))
        train_until(monkeypatch, OPTIONS, save, f"--max-update={most}", *more, killed_at=killed_at)
        return CheckpointState.of(save / "checkpoint_last.pt", numbers=False).processor_seconds()

    last = tmp_path / "checkpoint_last.pt"
    # Killed in the fourth update, whose work is lost.
    assert start(5.0, 4, killed_at=3) == 5.0
    assert start(2.5, 4) == 7.5
    # Finished, and started again.
    assert start(100.0, 4) == 7.5
    # A training that begins with these weights is another one.
    begin = [f"--restore-file={last}", *(f"--reset-{what}" for what in ("optimizer", "dataloader", "meters"))]
    assert start(3.0, 2, *begin, "--reset-lr-scheduler", save=tmp_path / "other") == 3.0
    # An earlier version's checkpoint does not say.
    state = torch.load(last, weights_only=False)
    del state["extra_state"][PROCESSOR_SECONDS]
    torch.save(state, last)
    assert math.isnan(start(1.0, 6))
