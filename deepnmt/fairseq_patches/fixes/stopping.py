"""A training that is stopped and resumed ends where an uninterrupted one ends.

fairseq keeps the best validation, and the number of worse ones since, in attributes of a function. These end with the
process: --patience would count from zero again. The count belongs to one model: deepnmt grow and deepnmt shrink leave
it out.
"""

import logging
import math
import sys
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer

from deepnmt.checkpoints.state import PATIENCE
from deepnmt.console import is_command
from deepnmt.fairseq_patches.patch import replaces, trainings_only

logger = logging.getLogger(__name__)

# Where the training's functions are: `python -m fairseq_cli.train` has them under another name.
_program = "fairseq_cli.train"


@replaces(distributed_utils, "call_main", order=10, why="a function of the running program counts --patience")
def note_the_program(stock: Any, cfg: Any, main: Any, **kwargs: Any) -> None:
    """Note which module has the function that counts."""
    global _program
    if hasattr(sys.modules.get(main.__module__), "should_stop_early"):
        _program = main.__module__
    stock(cfg, main, **kwargs)


def counter() -> Any:
    """Return the function of fairseq's that counts; None in programs that do not train."""
    return getattr(sys.modules.get(_program), "should_stop_early", None)


@replaces(checkpoint_utils, "load_checkpoint", order=10, why="a finished training makes one more update at each start")
@trainings_only
def stop_where_done(stock: Any, cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """End where there is nothing left to train."""
    last = Path(cfg.save_dir) / f"checkpoint_last{trainer.checkpoint_suffix or ''}.pt"
    begins = cfg.finetune_from_model is not None and not PathManager.exists(str(last))
    loaded = stock(cfg, trainer, **kwargs)
    if begins:
        # The model's earlier updates belong to another training.
        trainer._previous_training_time = 0
    most, done = trainer.cfg.optimization.max_update, trainer.get_num_updates()
    if 0 < most <= done:
        _end(trainer, f"{done} updates are done, and --max-update is {most}")
    hours, had = trainer.cfg.optimization.stop_time_hours, trainer.cumulative_training_time() / 3600
    if 0 < hours < had:
        _end(trainer, f"it has taken {had:.2f} hours, and --stop-time-hours is {hours}")
    return loaded


@replaces(Trainer, "save_checkpoint", order=10, why="checkpoints lack the count of --patience (issue 3531)")
def save_patience(stock: Any, self: Any, filename: str, extra_state: dict[str, Any]) -> Any:
    """Put the count into each checkpoint."""
    count = counter()
    if hasattr(count, "best"):
        extra_state = {**extra_state, PATIENCE: {"best": count.best, "runs": count.num_runs}}
    return stock(self, filename, extra_state)


@replaces(checkpoint_utils, "load_checkpoint", order=20, why="a resumed training counts --patience anew (issue 3531)")
@trainings_only
def restore_patience(stock: Any, cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """Continue the count of a checkpoint, and end a training that has run out of patience already."""
    extra_state, iterator = stock(cfg, trainer, **kwargs)
    kept, count = (extra_state or {}).get(PATIENCE), counter()
    # fairseq has restored the best score unless something is reset.
    resumed = hasattr(checkpoint_utils.save_checkpoint, "best")
    if kept and count and resumed:
        count.best, count.num_runs = kept["best"], kept["runs"]
        if 0 < cfg.patience <= count.num_runs:
            _end(trainer, f"{count.num_runs} validations brought nothing better (--patience)")
    return extra_state, iterator


def _end(trainer: Any, why: str) -> None:
    """End a command that has nothing to train; in a program, let fairseq's function for training return."""
    logger.info(f"nothing to train: {why}")
    if is_command():
        raise SystemExit(0)
    trainer.cfg.optimization.stop_min_lr = math.inf
