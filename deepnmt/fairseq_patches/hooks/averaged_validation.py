"""Validation of averaged weights: `--validate-average N` of the task `deep_translation`.

At a high learning rate the ranking of single checkpoints is random, and an average will translate. So the losses, BLEU,
the best checkpoint, --patience and schedules that follow the loss refer to the average here. The earlier weights are
read from the training's own checkpoints: a restart needs nothing else.
"""

import logging
from pathlib import Path
from typing import Any, Optional

from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from torch import Tensor

from deepnmt.checkpoints.averaging import NUMBERED, average, check_same_model
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.fairseq_patches.patch import replaces

logger = logging.getLogger(__name__)


@replaces(Trainer, "begin_valid_epoch", order=10, why="--validate-average validates an average of checkpoints")
def validate_the_average(stock: Any, self: Any, epoch: int) -> None:
    """Give the task the averaged weights before a validation."""
    number = getattr(self.task.cfg, "validate_average", 1)
    if number > 1:
        self.task.validate_with(self.get_model(), _shared(self, number))
    stock(self, epoch)


def earlier_checkpoints(folder: Path, updates: int, number: int) -> list[Path]:
    """Return the last checkpoints of a training before an update, the oldest first.

    Args:
        folder: folder of the checkpoints
        updates: number of updates done
        number: number of checkpoints; fewer if there are fewer
    """
    found: dict[int, Path] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        if NUMBERED.fullmatch(path.name):
            found.setdefault(CheckpointState.of(path, numbers=False).updates(), path)
    return [found[update] for update in sorted(found) if update < updates][-number:]


def _shared(trainer: Any, number: int) -> Optional[dict[str, Tensor]]:
    """Return the mean of the weights and the last checkpoints' weights, on every process; None without any."""
    mean = None
    if trainer.data_parallel_rank == 0:
        paths = earlier_checkpoints(Path(trainer.cfg.checkpoint.save_dir), trainer.get_num_updates(), number - 1)
        if paths:
            # As it would be saved: with FP16, in half precision.
            now = {name: tensor.cpu() for name, tensor in trainer.get_model().state_dict().items()}
            models = [*(CheckpointState.of(path).tensors() for path in paths), now]
            check_same_model([*paths, Path("the model")], models)
            mean = average(models)
        logger.info(f"validating the average of {1 + len(paths)} models")
    if trainer.data_parallel_world_size > 1:
        group, device = trainer.data_parallel_process_group, trainer.device
        mean = distributed_utils.broadcast_object(mean, src_rank=0, group=group, dist_device=device)
    return mean
