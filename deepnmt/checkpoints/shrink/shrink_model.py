"""Make a shallower checkpoint out of a deeper one, in one explicit step: the reverse of `deepnmt.checkpoints.grow`.

Epoch, data position and number of updates stay; the optimizer starts afresh, and the learning rate from its peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepnmt.checkpoints.optimizer import fresh_state
from deepnmt.checkpoints.rewrite import NO_OPTIMIZER, reset_schedule, rewrite_file, with_model
from deepnmt.checkpoints.shrink.shrink_report import shrinking_lines
from deepnmt.checkpoints.shrink.shrink_stacks import Shrinking, plan_shrinking
from deepnmt.checkpoints.state import BEST, CheckpointState
from deepnmt.checkpoints.trained_model import model_config
from deepnmt.model.config import DLCLTransformerConfig


def shrink_checkpoint(source: Path, target: Path, shrinking: Shrinking, keep_schedule: bool = False) -> list[str]:
    """Write a shallower checkpoint, whole or not at all, and return what was done, a line a fact.

    Args:
        source: a checkpoint of fairseq's
        target: the new one, which must not exist
        shrinking: what to keep
        keep_schedule: see `shrink`

    Raises:
        UserError: that cannot be kept, or one of the files is not as it must be
    """
    return rewrite_file(source, target, lambda state, config: shrink_state(state, config, shrinking, keep_schedule))


def shrink(
    contents: Mapping[str, Any], shrinking: Shrinking, keep_schedule: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return the contents of a shallower checkpoint, and what was done, a line a fact.

    Args:
        contents: of a checkpoint of fairseq's; they stay as they are
        shrinking: what to keep
        keep_schedule: do not reset the learning rate to its peak (17)

    Raises:
        UserError: that cannot be kept, or the checkpoint is not one of this model
    """
    old = CheckpointState(contents)
    new, lines = shrink_state(old, model_config(old), shrinking, keep_schedule)
    return dict(new.contents), lines


def shrink_state(
    state: CheckpointState, old_config: DLCLTransformerConfig, shrinking: Shrinking, keep_schedule: bool
) -> tuple[CheckpointState, list[str]]:
    """See `shrink`; `old_config` are the options of the checkpoint's model."""
    config, plans = plan_shrinking(old_config, shrinking)
    result, averages = with_model(state, config, plans)
    lines = [*(line for plan in plans for line in shrinking_lines(plan)), *averages]
    if state.has_best():
        # No shallower model would come up to it soon, and checkpoint_best.pt would not be written.
        result = result.without(BEST)
        lines.append("best validation score: forgotten, since it is that of the deeper model")
    optimizer = state.optimizer()
    if optimizer is None:
        return result, [*lines, NO_OPTIMIZER]
    result = result.with_optimizer(fresh_state(optimizer, len(result.tensors()) - len(state.tensors()), state.name))
    result, line = reset_schedule(result, keep_schedule)
    return result, [*lines, "optimizer: moments dropped", line]
