"""The losses of training pairs in checkpoints, for --sample-share."""

from typing import Any

from fairseq.trainer import Trainer

from deepnmt.data.dynamic_sampling import LOSSES, PairLosses
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.translation_task import DeepTranslationTask


@replaces(
    Trainer, "load_checkpoint", order=70, why="--sample-share: losses of pairs must be known before batches are made"
)
def restore_losses(stock: Any, self: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Give the task the losses in a checkpoint whose position in the data is taken. Raises `UserError` for others."""
    extra_state = stock(self, filename, *args, **kwargs)
    state = (extra_state or {}).get(LOSSES)
    if state is not None and isinstance(self.task, DeepTranslationTask):
        cfg = self.cfg.checkpoint
        if not cfg.reset_dataloader and filename != cfg.finetune_from_model:
            self.task.losses = PairLosses.of(state, filename)
    return extra_state
