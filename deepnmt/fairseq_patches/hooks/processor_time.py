"""Checkpoints record the processor time of their training.

It survives a kill and a restart as the updates do: time after the last checkpoint is lost with its updates.
"""

import time
from typing import Any

from fairseq.trainer import Trainer

from deepnmt.checkpoints.state import PROCESSOR_SECONDS
from deepnmt.fairseq_patches.patch import replaces


@replaces(Trainer, "load_checkpoint", order=50, why="checkpoints record the processor time of their training")
def continue_the_count(
    stock: Any, self: Any, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any
) -> Any:
    """Count from the seconds of the checkpoint that the training continues; an earlier version's are unknown."""
    extra_state = stock(self, filename, reset_optimizer, *args, **kwargs)
    resumed = extra_state is not None and not reset_optimizer
    self.earlier_processor_seconds = extra_state.get(PROCESSOR_SECONDS) if resumed else 0.0
    return extra_state


@replaces(Trainer, "save_checkpoint", order=60, why="checkpoints record the processor time of their training")
def save_processor_seconds(stock: Any, self: Any, filename: str, extra_state: dict[str, Any]) -> Any:
    """Put the seconds into each checkpoint, of this process times the number of processes, which all work alike."""
    earlier = getattr(self, "earlier_processor_seconds", 0.0)
    if earlier is not None:
        seconds = earlier + time.process_time() * self.data_parallel_world_size
        extra_state = {**extra_state, PROCESSOR_SECONDS: seconds}
    return stock(self, filename, extra_state)
