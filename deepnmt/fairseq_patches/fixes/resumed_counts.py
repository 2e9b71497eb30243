"""A training's counts beside its updates, which a resumed training would count anew."""

from types import SimpleNamespace
from typing import Any

from fairseq import checkpoint_utils
from fairseq.models.ema.ema import EMA
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.trainer import Trainer
from torch import Tensor

from deepnmt.fairseq_patches.patch import replaces, trainings_only

BAD, COOLDOWN = "num_bad_epochs", "cooldown_counter"


@replaces(
    ReduceLROnPlateauLRSchedule, "state_dict", order=10, why="checkpoints lack the count of --lr-patience (pull 4071)"
)
def save_plateau(stock: Any, self: Any) -> dict[str, Any]:
    """Put the validations without a better one into each checkpoint."""
    return {**stock(self), **{name: getattr(self.lr_scheduler, name) for name in (BAD, COOLDOWN)}}


@replaces(ReduceLROnPlateauLRSchedule, "load_state_dict", order=10, why="a resumed training counts --lr-patience anew")
def restore_plateau(stock: Any, self: Any, state_dict: dict[str, Any]) -> None:
    """Continue the count; fairseq's own checkpoints lack it."""
    stock(self, state_dict)
    for name in (BAD, COOLDOWN):
        setattr(self.lr_scheduler, name, state_dict.get(name, 0))


@replaces(
    checkpoint_utils, "load_checkpoint", order=15, why="a checkpoint is written before its validation changes the rate"
)
@trainings_only
def count_the_last_validation(stock: Any, cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """Give the validation of the epoch that a checkpoint ends to a schedule that looks at it."""
    extra_state, iterator = stock(cfg, trainer, **kwargs)
    position = (extra_state or {}).get("train_iterator", {})
    loss = (extra_state or {}).get("val_loss")
    resumed = position.get("epoch") == iterator.epoch > 1 and not position.get("iterations_in_epoch")
    resumed = resumed and not (cfg.reset_lr_scheduler or cfg.reset_optimizer)
    if resumed and loss is not None and isinstance(trainer.lr_scheduler, ReduceLROnPlateauLRSchedule):
        trainer.lr_step(iterator.epoch - 1, loss)
    return extra_state, iterator


@replaces(Trainer, "load_checkpoint", order=20, why="a resumed training counts --ema-update-freq anew")
def restore_average_count(stock: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Continue where the updates are."""
    extra_state = stock(self, *args, **kwargs)
    if self.cfg.ema.store_ema and self.cfg.ema.ema_update_freq > 1:
        self.ema.update_freq_counter = self.get_num_updates() % self.cfg.ema.ema_update_freq
    return extra_state


@replaces(EMA, "_step_internal", order=10, why="--store-ema averages a shared table once for each name")
def step_shared_tensors_once(stock: Any, self: Any, new_model: Any, updates: Any = None) -> None:
    """Step each tensor of the average once."""
    average = self.fp32_params if self.config.ema_fp32 else self.model.state_dict()
    once: dict[str, Any] = {}
    seen: set[tuple[int, int]] = set()
    for key, value in new_model.state_dict().items():
        own = average.get(key)
        place = (own.data_ptr(), own.numel()) if isinstance(own, Tensor) and own.numel() else None
        if place is None or place not in seen:
            once[key] = value
        if place is not None:
            seen.add(place)
    stock(self, SimpleNamespace(state_dict=lambda: once), updates)
