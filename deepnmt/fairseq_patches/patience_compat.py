"""Lets --patience count on where a stopped training goes on.

fairseq keeps the best validation and the number of those without a better one since in attributes of a function, which
end with the process: a training that is stopped and started again then goes on for longer than one that is not. The
count is that of one model: deepnmt-grow and deepnmt-shrink leave it out.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import fairseq.trainer
from fairseq import checkpoint_utils

# What a checkpoint's `extra_state` has it as.
PATIENCE = "patience"

logger = logging.getLogger(__name__)


def apply() -> None:
    """Put it in place; a second call changes nothing."""
    if hasattr(fairseq.trainer.Trainer, PATIENCE):
        return
    fairseq.trainer.Trainer.patience = True
    save_the_count()
    take_up_the_count()


def counter() -> Any:
    """fairseq's function, whichever way its command was started; None in other programs."""
    modules: list[Any] = [sys.modules.get(name) for name in ("fairseq_cli.train", "__main__")]
    return next((module.should_stop_early for module in modules if hasattr(module, "should_stop_early")), None)


def save_the_count() -> None:
    """Put the count into each checkpoint."""
    stock = fairseq.trainer.Trainer.save_checkpoint

    def save_checkpoint(self: Any, filename: str, extra_state: dict[str, Any]) -> Any:
        count = counter()
        if hasattr(count, "best"):
            extra_state = {**extra_state, PATIENCE: {"best": count.best, "runs": count.num_runs}}
        return stock(self, filename, extra_state)

    fairseq.trainer.Trainer.save_checkpoint = save_checkpoint


def take_up_the_count() -> None:
    """Go on with the count of a checkpoint, and end a training that has run out of patience already."""
    stock = checkpoint_utils.load_checkpoint

    def load_checkpoint(cfg: Any, trainer: Any, **kwargs: Any) -> Any:
        extra_state, iterator = stock(cfg, trainer, **kwargs)
        kept, count = (extra_state or {}).get(PATIENCE), counter()
        # fairseq has taken up the best score unless something is reset.
        goes_on = hasattr(checkpoint_utils.save_checkpoint, "best")
        if kept and count and goes_on:
            count.best, count.num_runs = kept["best"], kept["runs"]
            if 0 < cfg.patience <= count.num_runs:
                logger.info(f"nothing to train: {count.num_runs} validations brought nothing better (--patience)")
                raise SystemExit(0)
        return extra_state, iterator

    checkpoint_utils.load_checkpoint = load_checkpoint
