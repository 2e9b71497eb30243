"""--restore-file: the same command resumes where the training was, not where it began."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf

from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.patch import replaces

logger = logging.getLogger(__name__)

DEFAULT = "checkpoint_last.pt"
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


@replaces(
    checkpoint_utils,
    "load_checkpoint",
    "(cfg, trainer, **passthrough_args)",
    order=50,
    why="the same command with --restore-file resumes from the last checkpoint, as with --finetune-from-model",
)
def resume_from_the_last(stock: Any, cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """Load the last checkpoint of --save-dir in the place of --restore-file if its training began with this file."""
    if cfg.restore_file != DEFAULT:
        last = Path(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")
        resumed = trainer.data_parallel_rank == 0 and began_with(last, cfg.restore_file)
        if trainer.data_parallel_world_size > 1:
            resumed = distributed_utils.broadcast_object(
                resumed, src_rank=0, group=trainer.data_parallel_process_group, dist_device=trainer.device
            )
        if resumed:
            logger.info(
                f"resuming from {last}, whose training began with --restore-file {cfg.restore_file}; to begin with it "
                "once more, give another --save-dir"
            )
            # The trainer's own options stay, so that the next checkpoints tell what they began with, too.
            cfg = OmegaConf.merge(cfg, {"restore_file": DEFAULT, **dict.fromkeys(RESETS, False)})
    return stock(cfg, trainer, **kwargs)


def began_with(last: Path, restore_file: str) -> bool:
    """Return whether a checkpoint is there, of a training with this --restore-file, which is no newer."""
    with suppress(UserError, OSError):
        options = CheckpointState.of(last, numbers=False).options("checkpoint") if last.is_file() else {}
        if options.get("restore_file") == restore_file:
            begun = Path(restore_file)
            return not begun.is_file() or begun.stat().st_mtime_ns <= last.stat().st_mtime_ns
    return False
