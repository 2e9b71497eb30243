"""The TensorBoard curves of a training that was stopped and resumed are one curve.

A killed training repeats the updates since its last checkpoint, and logs them again. Each event file begins with the
first update that it may hold, and TensorBoard drops the entries of earlier files from there on. Entries logged before a
checkpoint reach the disk before it.
"""

import os
import sys
import time
from typing import Any

from fairseq import checkpoint_utils
from fairseq.logging import progress_bar
from fairseq.trainer import Trainer

from deepnmt.fairseq_patches.patch import replaces, trainings_only

_first_update = 0


@replaces(checkpoint_utils, "load_checkpoint", order=30, why="event files record their first update")
@trainings_only
def note_the_first_update(stock: Any, cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """Note where a training starts or is resumed."""
    global _first_update
    loaded = stock(cfg, trainer, **kwargs)
    _first_update = trainer.get_num_updates() + 1
    return loaded


@replaces(progress_bar.TensorboardProgressBarWrapper, "_writer", order=10, why="a resumed curve has some updates twice")
def begin_file_with_its_update(stock: Any, self: Any, key: str) -> Any:
    """Open a file of events for a subset, or return the one that is open."""
    writers = progress_bar._tensorboard_writers
    if progress_bar.SummaryWriter is not None and key not in writers:
        folder = os.path.join(self.tensorboard_logdir, key)
        # The name has the second of its start; a file that is opened again would not be one of its own.
        suffix = f".{time.time_ns()}"
        writers[key] = progress_bar.SummaryWriter(folder, purge_step=_first_update, filename_suffix=suffix)
        writers[key].add_text("sys.argv", " ".join(sys.argv))
    return writers.get(key)


@replaces(Trainer, "save_checkpoint", order=20, why="write curves before the checkpoint that a training resumes from")
def write_curves_before_saving(stock: Any, self: Any, filename: str, extra_state: dict[str, Any]) -> Any:
    """Leave nothing in memory that a training from the checkpoint would not log again."""
    for writer in progress_bar._tensorboard_writers.values():
        writer.flush()
    return stock(self, filename, extra_state)
