"""Makes the TensorBoard curves of a training that was stopped and goes on one curve.

A training that is killed makes the updates since its last checkpoint again, and logs them again. Each file of events
now begins with the first update that it may hold, and TensorBoard drops what earlier files have from there on. What is
logged before a checkpoint is saved is on the disk before the checkpoint is.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import fairseq.trainer
from fairseq import checkpoint_utils
from fairseq.logging import progress_bar

_first_update = 0


def apply() -> None:
    """Put it in place; a second call changes nothing."""
    if hasattr(progress_bar.TensorboardProgressBarWrapper._writer, "from_update"):
        return
    remember_the_update()
    begin_files_with_it()
    write_before_saving()


def remember_the_update() -> None:
    """Note where a training starts or goes on."""
    stock = checkpoint_utils.load_checkpoint

    def load_checkpoint(cfg: Any, trainer: Any, **kwargs: Any) -> Any:
        global _first_update
        loaded = stock(cfg, trainer, **kwargs)
        _first_update = trainer.get_num_updates() + 1
        return loaded

    checkpoint_utils.load_checkpoint = load_checkpoint


def begin_files_with_it() -> None:
    """Let each file say from which update on it replaces what earlier ones have."""

    def _writer(self: Any, key: str) -> Any:
        writers = progress_bar._tensorboard_writers
        if progress_bar.SummaryWriter is not None and key not in writers:
            folder = os.path.join(self.tensorboard_logdir, key)
            writers[key] = progress_bar.SummaryWriter(folder, purge_step=_first_update)
            writers[key].add_text("sys.argv", " ".join(sys.argv))
        return writers.get(key)

    _writer.from_update = True  # type: ignore[attr-defined]
    progress_bar.TensorboardProgressBarWrapper._writer = _writer


def write_before_saving() -> None:
    """Leave nothing in memory that a training from the checkpoint would not log again."""
    stock = fairseq.trainer.Trainer.save_checkpoint

    def save_checkpoint(self: Any, filename: str, extra_state: dict[str, Any]) -> Any:
        for writer in progress_bar._tensorboard_writers.values():
            writer.flush()
        return stock(self, filename, extra_state)

    fairseq.trainer.Trainer.save_checkpoint = save_checkpoint
