"""Makes a shallower checkpoint out of a deeper one, in one explicit step: the reverse of `deepnmt.checkpoints.grow`.

Epoch, data position and number of updates go on; the optimizer starts afresh, and the learning rate from its peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from deepnmt.checkpoints.file import check_target, check_tensors, model_config, model_options, read, write
from deepnmt.checkpoints.optimizer import fresh_state
from deepnmt.checkpoints.rewrite import NO_OPTIMIZER, reset_schedule, with_model
from deepnmt.checkpoints.shrink.shrink_report import stack_lines
from deepnmt.checkpoints.shrink.shrink_stacks import Shrinking, plan_stacks


def shrink_checkpoint(source: Path, target: Path, shrinking: Shrinking, keep_schedule: bool = False) -> list[str]:
    """Write a shallower checkpoint, whole or not at all.

    Args:
        source: a checkpoint of fairseq's
        target: the new one, which must not exist
        shrinking: what to keep
        keep_schedule: see `shrink`

    Returns:
        what was done, a line a fact

    Raises:
        UserError: that cannot be kept, or one of the files is not as it must be
    """
    check_target(source, target)
    state, lines = shrink(read(source), shrinking, keep_schedule)
    write(state, target)
    return lines


def shrink(
    state: Mapping[str, Any], shrinking: Shrinking, keep_schedule: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The contents of a shallower checkpoint, and what was done, a line a fact.

    Args:
        state: the contents of a checkpoint of fairseq's; they stay as they are
        shrinking: what to keep
        keep_schedule: the learning rate goes on; else it goes back to its peak (17)

    Raises:
        UserError: that cannot be kept, or the checkpoint is not one of this model
    """
    old = model_config(model_options(state))
    check_tensors(state["model"], old)
    options, plans = plan_stacks(old, shrinking)
    lines = [line for plan in plans for line in stack_lines(plan)]

    def rewrite(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        for plan in plans:
            tensors = plan.tensors(tensors)
        return dict(tensors)

    result, more = with_model(state, options, rewrite)
    lines += more
    if "best" in result["extra_state"]:
        # No shallower model would come up to it soon, and checkpoint_best.pt would not be written.
        del result["extra_state"]["best"]
        lines.append("best validation score: forgotten, since it is that of the deeper model")
    optimizer = state.get("last_optimizer_state")
    if optimizer is None:
        return result, [*lines, NO_OPTIMIZER]
    result["last_optimizer_state"] = fresh_state(optimizer, len(result["model"]) - len(state["model"]))
    return result, [*lines, "optimizer: moments dropped", reset_schedule(result, keep_schedule)]
