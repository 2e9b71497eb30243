"""The checkpoints that a training writes and keeps, as the help texts of fairseq's options promise.

fairseq keeps a checkpoint as one of the N best only if it beats the worst so far, even while there are fewer than N.
It compares scores by the three digits in their names, which a random digit follows. A score of NaN becomes the best,
and an interval of updates that ends with an epoch leaves nothing.
"""

import logging
import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer
from fairseq_cli import train

from deepnmt.checkpoints.state import BEST, BEST_BY, PATIENCE, CheckpointState
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.patch import replaces, trainings_only

logger = logging.getLogger(__name__)


class Kept(NamedTuple):
    """One of the best checkpoints.

    Attributes:
        score: score of its validation
        updates: done
        path: path of the file
    """

    score: float
    updates: int
    path: str


@replaces(
    checkpoint_utils, "save_checkpoint", order=10, why="the N best are not kept (issue 2195), nor intervals (2230)"
)
@trainings_only
def save_what_the_options_say(stock: Any, cfg: Any, trainer: Any, epoch_itr: Any, val_loss: Any) -> Optional[str]:
    """Write a checkpoint under all its required names, and remove checkpoints that need not be kept.

    Returns:
        the first of its files; None: nothing was written
    """
    if trainer.data_parallel_rank == 0:
        os.makedirs(cfg.save_dir, exist_ok=True)
    score = None if val_loss is None or math.isnan(val_loss) else val_loss
    is_best = score is not None and _note_best(cfg, score)
    if cfg.no_save:
        return None
    trainer.consolidate_optimizer()
    if not trainer.should_save_checkpoint_on_current_rank:
        if trainer.always_call_state_dict_during_save_checkpoint:
            trainer.state_dict()
        return None
    names = list(_names(cfg, trainer, epoch_itr, score, is_best))
    if not names:
        return None
    extra_state = {"train_iterator": epoch_itr.state_dict(), "val_loss": val_loss}
    if hasattr(trainer.task, "get_checkpoint_dict"):
        extra_state |= trainer.task.get_checkpoint_dict()
    if hasattr(checkpoint_utils.save_checkpoint, "best"):
        extra_state |= {BEST: checkpoint_utils.save_checkpoint.best, BEST_BY: best_by(cfg)}
    first, *others = (os.path.join(cfg.save_dir, name) for name in names)
    saved: Optional[str] = trainer.save_checkpoint(first, extra_state)
    for path in others:
        if cfg.write_checkpoints_asynchronously:
            # The first may not be there yet.
            trainer.save_checkpoint(path, extra_state)
        else:
            PathManager.copy(first, path, overwrite=True)
    epoch, updates = epoch_itr.epoch, trainer.get_num_updates()
    logger.info(f"Saved checkpoint {first} (epoch {epoch} @ {updates} updates, score {val_loss})")
    for path in _surplus(cfg, trainer.checkpoint_suffix):
        PathManager.rm(path)
    return saved


def _note_best(cfg: Any, score: float) -> bool:
    """Note the best score so far, and return whether it is this one."""
    best = getattr(checkpoint_utils.save_checkpoint, "best", score)
    if math.isnan(best):  # of a training by an earlier version
        best = score
    best = max(score, best) if cfg.maximize_best_checkpoint_metric else min(score, best)
    checkpoint_utils.save_checkpoint.best = best
    return bool(best == score)


def _names(cfg: Any, trainer: Any, epoch_itr: Any, score: Optional[float], is_best: bool) -> Iterator[str]:
    """Yield the names that the checkpoint has to have."""
    epoch, updates, suffix = epoch_itr.epoch, trainer.get_num_updates(), trainer.checkpoint_suffix
    if epoch_itr.end_of_epoch() and not cfg.no_epoch_checkpoints and epoch % cfg.save_interval == 0:
        yield f"checkpoint{epoch}{suffix}.pt"
    if cfg.save_interval_updates > 0 and updates > 0 and updates % cfg.save_interval_updates == 0:
        yield f"checkpoint_{epoch}_{updates}{suffix}.pt"
    if is_best:
        yield f"checkpoint_best{suffix}.pt"
    if cfg.keep_best_checkpoints > 0 and score is not None and math.isfinite(score):
        kept = best_kept(cfg, suffix)
        worst = kept[-1].score if len(kept) >= cfg.keep_best_checkpoints else score
        if score >= worst if cfg.maximize_best_checkpoint_metric else score <= worst:
            yield _name_among_the_best(cfg, kept, epoch, updates, score, suffix)
    if not cfg.no_last_checkpoints:
        yield f"checkpoint_last{suffix}.pt"


def _name_among_the_best(cfg: Any, kept: list[Kept], epoch: int, updates: int, score: float, suffix: str) -> str:
    # A training that was killed before it wrote its last checkpoint comes here again.
    for each in kept:
        if each.updates == updates:
            return os.path.basename(each.path)
    with data_utils.numpy_seed(epoch, updates, score):
        drawn = int(np.random.randint(0, cfg.keep_best_checkpoints))
    taken = {os.path.basename(each.path) for each in kept}
    names = (f"checkpoint.best_{cfg.best_checkpoint_metric}_{score:.3f}{n}{suffix}.pt" for n in chain([drawn], count()))
    return next(name for name in names if name not in taken)


def best_kept(cfg: Any, suffix: str) -> list[Kept]:
    """Return the best checkpoints that are there, the best first, of equal ones the newest."""
    pattern = rf"checkpoint\.best_{re.escape(cfg.best_checkpoint_metric)}_(-?\d+\.?\d*){re.escape(suffix)}\.pt"
    paths = checkpoint_utils.checkpoint_paths(cfg.save_dir, pattern=pattern, keep_match=True)
    kept = [_kept(path, rounded) for path, rounded in paths]
    sign = -1 if cfg.maximize_best_checkpoint_metric else 1
    return sorted(kept, key=lambda each: (sign * each.score, -each.updates))


def _kept(path: str, rounded: float) -> Kept:
    if not PathManager.path_requires_pathmanager(path):
        # A reader of a damaged one will report its fault.
        with suppress(UserError):
            state = CheckpointState.of(Path(path), numbers=False)
            score = state.extra("val_loss")
            return Kept(rounded if score is None else float(score), state.updates(), path)
    return Kept(rounded, 0, path)


def _surplus(cfg: Any, suffix: str) -> Iterator[str]:
    """Yield the checkpoints that are not to be kept any longer."""
    if cfg.save_interval_updates > 0 and cfg.keep_interval_updates > 0:
        pattern, every = rf"checkpoint_\d+_(\d+){re.escape(suffix)}\.pt", cfg.keep_interval_updates_pattern
        found = checkpoint_utils.checkpoint_paths(cfg.save_dir, pattern=pattern, keep_match=True)
        yield from [path for path, updates in found if every == -1 or updates % every][cfg.keep_interval_updates :]
    if cfg.keep_last_epochs > 0:
        pattern = rf"checkpoint(\d+){re.escape(suffix)}\.pt"
        yield from checkpoint_utils.checkpoint_paths(cfg.save_dir, pattern=pattern)[cfg.keep_last_epochs :]
    if cfg.keep_best_checkpoints > 0:
        yield from (each.path for each in best_kept(cfg, suffix)[cfg.keep_best_checkpoints :])


def best_by(cfg: Any) -> str:
    """Return the criterion of the best checkpoint."""
    return f"{'largest' if cfg.maximize_best_checkpoint_metric else 'smallest'} {cfg.best_checkpoint_metric}"


@replaces(Trainer, "load_checkpoint", order=60, why="scores of two metrics are compared")
def forget_the_best_of_another_metric(stock: Any, self: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Resume a training without the best score and the count of --patience if they are of another metric."""
    extra_state = stock(self, filename, *args, **kwargs)
    if extra_state and BEST_BY in extra_state and extra_state[BEST_BY] != (now := best_by(self.cfg.checkpoint)):
        logger.info(f"the best score of {filename} is the {extra_state[BEST_BY]}; the {now} is looked for anew")
        for key in (BEST, PATIENCE):
            extra_state.pop(key, None)
    return extra_state


@replaces(train, "validate_and_save", order=10, why="--save-interval-updates waits for --validate-after-updates")
def save_before_validations(
    stock: Any, cfg: Any, trainer: Any, task: Any, epoch_itr: Any, valid_subsets: Any, end_of_epoch: bool
) -> Any:
    """Validate and save where the options say so."""
    losses, should_stop = stock(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
    every, updates = cfg.checkpoint.save_interval_updates, trainer.get_num_updates()
    saved = should_stop or (end_of_epoch and epoch_itr.epoch % cfg.checkpoint.save_interval == 0)
    if not saved and every > 0 and 0 < updates < cfg.dataset.validate_after_updates and updates % every == 0:
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, losses[0])
    return losses, should_stop


@replaces(train, "should_stop_early", order=10, why="a validation of NaN counts as the best")
def count_nan_as_the_worst(stock: Any, cfg: Any, valid_loss: Optional[float]) -> Any:
    """Return whether --patience is at its end."""
    if valid_loss is not None and math.isnan(valid_loss):
        valid_loss = -math.inf if cfg.checkpoint.maximize_best_checkpoint_metric else math.inf
    return stock(cfg, valid_loss)
