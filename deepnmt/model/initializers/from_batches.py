"""Initial weights that need data, set by fairseq's trainer before its first update (`BatchInitializer`).

The weights in a checkpoint show that this is over: a restart or a fine-tuning keeps trained weights.
"""

import logging
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils

from deepnmt.model.initializers import batch_initializer

logger = logging.getLogger(__name__)


def initialize_from_batches(trainer: Any, samples: Sequence[Any]) -> None:
    """Set the weights that need data, unless there are no such weights or they have been set or trained before.

    The samples are the batches of the trainer's first update on this worker; an empty one replaces a missing batch.
    """
    model = trainer.get_model()
    method = batch_initializer(model)
    if method is None or not method.is_pending(model):
        return
    # The sums of the numbers, and the number of batches.
    total = torch.zeros(method.size(model) + 1, dtype=torch.float64, device=trainer.device)
    for sample in samples:
        batch, is_dummy = trainer._prepare_sample(sample)
        if not is_dummy:
            trainer._set_seed()  # The same dropout for a batch, whichever worker has it.
            total += total.new_tensor([*method.measure(model, batch["net_input"]), 1.0])
    if trainer.data_parallel_world_size > 1:
        total = distributed_utils.all_reduce(total, group=trainer.data_parallel_process_group)
    summary = method.set_weights(model, (total[:-1] / total[-1]).tolist())
    rebuild_optimizer(trainer)
    logger.info(f"{model.cfg.deep.initializer}: profiled {int(total[-1])} batches; {summary}")


def rebuild_optimizer(trainer: Any) -> None:
    """Let the optimizer see the new weights: in half precision it copied all parameters when it was built."""
    schedule = trainer.lr_scheduler.state_dict()
    trainer._optimizer = trainer._lr_scheduler = None  # Frees the copies before there are new ones.
    trainer._build_optimizer()
    trainer.lr_scheduler.load_state_dict(schedule)
    trainer.lr_step_update()
