"""--restore-file: the same command resumes where the training was, not where it began."""

import logging
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from deepnmt.checkpoints.state import CheckpointState
from deepnmt.fairseq_patches.patch import replaces, trainings_only
from deepnmt.text.record import sha256

logger = logging.getLogger(__name__)

DEFAULT = "checkpoint_last.pt"
# In the extra state of a checkpoint: the checksum of the file that its training began with.
RESTORED = "restored"
RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


@replaces(checkpoint_utils, "load_checkpoint", order=50, why="the same command with --restore-file begins anew")
@trainings_only
def resume_from_the_last(stock: Any, cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """Load the last checkpoint of --save-dir in the place of --restore-file if its training began with this file.

    Raises:
        UserError: the last checkpoint cannot be read
    """
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
            # The trainer's own options stay: the next checkpoints then also name their start.
            cfg = OmegaConf.merge(cfg, {"restore_file": DEFAULT, **dict.fromkeys(RESETS, False)})
    return stock(cfg, trainer, **kwargs)


def began_with(last: Path, restore_file: str) -> bool:
    """Return whether a checkpoint is there, of a training that began with this file, which may be gone by now.

    In a program, a file that has never been there begins a training anew, as in fairseq.

    Raises:
        UserError: it is there, and cannot be read
    """
    if not last.is_file():
        return False
    state = CheckpointState.of(last, numbers=False)
    # Only the record of this training: the checkpoint that it began with may have begun with another one.
    begun = Path(restore_file)
    named = state.options("checkpoint").get("restore_file") == restore_file
    restored = state.extra(RESTORED)
    return named and restored is not None and (not begun.is_file() or restored == sha256(begun))


@replaces(Trainer, "load_checkpoint", order=30, why="checkpoints record the --restore-file that they began with")
def note_the_file(stock: Any, self: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Keep the checksum of the file, or the last checkpoint's record of it."""
    extra_state = stock(self, filename, *args, **kwargs)
    named = self.cfg.checkpoint.restore_file
    self.restored = None
    if named != DEFAULT and self.data_parallel_rank == 0:
        begins = filename == named and Path(named).is_file()
        self.restored = sha256(Path(named)) if begins else (extra_state or {}).get(RESTORED)
    return extra_state


@replaces(Trainer, "save_checkpoint", order=30, why="checkpoints record the --restore-file that they began with")
def save_what_it_began_with(stock: Any, self: Any, filename: str, extra_state: dict[str, Any]) -> Any:
    """Put its checksum into each checkpoint."""
    restored = getattr(self, "restored", None)
    return stock(self, filename, {**extra_state, RESTORED: restored} if restored else extra_state)
