"""Trainings in this process that end as a killed one does, and go on as in a new process."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Optional

import pytest
from fairseq import checkpoint_utils
from fairseq.logging import metrics, progress_bar
from fairseq.trainer import Trainer
from fairseq_cli import train

from support.trainings import fairseq_train


class Killed(Exception):
    """Nothing is saved on the way out."""


def forget() -> None:
    """What ends with a process."""
    for function, names in (
        (checkpoint_utils.save_checkpoint, ("best",)),
        (train.should_stop_early, ("best", "num_runs")),
    ):
        for name in names:
            if hasattr(function, name):
                delattr(function, name)
    for writer in progress_bar._tensorboard_writers.values():
        writer.close()
    progress_bar._tensorboard_writers.clear()
    metrics.reset()


def train_until(
    monkeypatch: pytest.MonkeyPatch, data: list[str], save: Path, *more: str, killed_at: Optional[int] = None
) -> list[int]:
    """Train as a process of its own; killed before the update that follows so many.

    Returns:
        for each update that was made the number of those before it
    """
    done: list[int] = []
    stock = Trainer.train_step

    def train_step(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        if self.get_num_updates() == killed_at:
            raise Killed
        done.append(self.get_num_updates())
        return stock(self, *args, **kwargs)

    forget()
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_step", train_step)
        # A training that has nothing to do exits.
        with contextlib.suppress(Killed, SystemExit):
            fairseq_train(monkeypatch, data, save, *more)
    forget()
    return done
