"""Give a checkpoint a model of another depth: what growing and shrinking change in it beside the tensors.

Epoch, data position and number of updates stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from deepnmt.checkpoints.file import check_target, write
from deepnmt.checkpoints.stack_plan import StackPlan
from deepnmt.checkpoints.state import PATIENCE, CheckpointState, Tensors
from deepnmt.checkpoints.trained_model import check_fit, check_whole, model_config
from deepnmt.errors import UserError
from deepnmt.lr_schedulers.inverse_sqrt_reset import with_reset
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import STACKS

RESETTABLE = "inverse_sqrt_reset"
NO_OPTIMIZER = "optimizer: none in the checkpoint; a training from it counts its updates from 0"
Change = Callable[[CheckpointState, DLCLTransformerConfig], tuple[CheckpointState, list[str]]]


def rewrite_file(source: Path, target: Path, change: Change) -> list[str]:
    """Write a changed checkpoint, whole or not at all, and return what was done, a line a fact.

    Args:
        source: a checkpoint of this package's model
        target: the new one, which must not exist
        change: the new state from the old one and the options of its model

    Raises:
        UserError: one of the files is not as it must be, or the change is not possible
    """
    check_target(source, target)
    state, lines = rewritten(CheckpointState.of(source), change)
    write(state.contents, target)
    return lines


def rewritten(state: CheckpointState, change: Change) -> tuple[CheckpointState, list[str]]:
    """Return a changed checkpoint, whose model has been looked at before, and what was done.

    Raises:
        UserError: the model is not one of this package's, or not that of its options, or the change is not possible
    """
    state.check_trained()
    config = model_config(state)
    check_whole(state, config)
    check_fit(state, config)
    return change(state, config)


def with_model(
    state: CheckpointState, config: DLCLTransformerConfig, plans: Sequence[StackPlan]
) -> tuple[CheckpointState, list[str]]:
    """Return the checkpoint with its new model, and what was done beside that, a line a fact.

    Args:
        state: the checkpoint
        config: options of the new model
        plans: what becomes of its stacks
    """

    def rewrite(tensors: Tensors) -> Tensors:
        for plan in plans:
            tensors = plan.tensors(tensors)
        return tensors

    changed = [plan.new.name for plan in plans if plan.layers.changes]
    names = [f"{stack}_{option}" for option in ("layers", "groups") for stack in STACKS if stack in changed]
    # A training that has run out of patience would end at once.
    result = state.with_options({name: getattr(config, name) for name in names}).with_models(rewrite).without(PATIENCE)
    return result, ["moving average of the model: as the model"] if state.has_average() else []


def reset_schedule(state: CheckpointState, keep: bool) -> tuple[CheckpointState, str]:
    """Set the learning rate back to its peak, where that is possible, and say what was done.

    Args:
        state: the checkpoint
        keep: leave the learning rate as it is

    Raises:
        UserError: the checkpoint does not say at which update it was saved
    """
    if keep:
        return state, "learning rate: continues as before"
    if (schedule := state.schedule()) != RESETTABLE:
        return state, f"learning rate: continues as before, since {schedule} has no reset; {RESETTABLE} has"
    updates = state.updates()
    try:
        reset = with_reset(state.schedule_state(), updates)
    except (TypeError, ValueError) as error:
        key = "optimizer_history[-1].lr_scheduler_state"
        raise UserError(f"{state.name}: {key} must be what {RESETTABLE} keeps, but is not") from error
    return state.with_schedule_state(reset), f"learning rate: back to its peak at update {updates}"
