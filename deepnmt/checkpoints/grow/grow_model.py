"""Make a deeper checkpoint out of a shallower one, in one explicit step (Li 2020, EMNLP, arXiv 2010.03737).

Model, options, moving averages of the model, optimizer and learning rate change; epoch, data position, number of
updates and scores stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from deepnmt.checkpoints.grow.grow_report import growth_lines
from deepnmt.checkpoints.grow.grow_stacks import GrownStack, Growth, plan_growth
from deepnmt.checkpoints.optimizer import States, carried_state, fresh_state, parameter_names
from deepnmt.checkpoints.rewrite import NO_OPTIMIZER, reset_schedule, rewrite_file, with_model
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.checkpoints.tensors import weight_name
from deepnmt.checkpoints.trained_model import model_config
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig


def grow_checkpoint(
    source: Path, target: Path, growth: Growth, carry_moments: bool = False, keep_schedule: bool = False
) -> list[str]:
    """Write a deeper checkpoint, whole or not at all, and return what was done, a line a fact.

    Args:
        source: a checkpoint of fairseq's
        target: the new one, which must not exist
        growth: what to grow, and how
        carry_moments: see `grow`
        keep_schedule: see `grow`

    Raises:
        UserError: the growth is not possible, or one of the files is not as it must be
    """
    return rewrite_file(
        source, target, lambda state, config: grow_state(state, config, growth, carry_moments, keep_schedule)
    )


def grow(
    contents: Mapping[str, Any], growth: Growth, carry_moments: bool = False, keep_schedule: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return the contents of a deeper checkpoint, and what was done, a line a fact.

    Args:
        contents: of a checkpoint of fairseq's; they stay as they are
        growth: what to grow, and how
        carry_moments: keep the optimizer's moments of the layers that were kept or copied; else it starts afresh
        keep_schedule: do not reset the learning rate to its peak (17)

    Raises:
        UserError: the growth is not possible, or the checkpoint is not one of this model
    """
    old = CheckpointState(contents)
    new, lines = grow_state(old, model_config(old), growth, carry_moments, keep_schedule)
    return dict(new.contents), lines


def grow_state(
    state: CheckpointState, old_config: DLCLTransformerConfig, growth: Growth, carry_moments: bool, keep_schedule: bool
) -> tuple[CheckpointState, list[str]]:
    """See `grow`; `old_config` are the options of the checkpoint's model."""
    config, plans = plan_growth(old_config, growth)
    result, averages = with_model(state, config, plans)
    lines = [*(line for plan in plans for line in growth_lines(plan)), *averages]
    optimizer = state.optimizer()
    if optimizer is None:
        if carry_moments:
            raise UserError(f"--carry-moments: {state.name} must have the state of an optimizer, but has none")
        return result, [*lines, NO_OPTIMIZER]
    if carry_moments:
        result = result.with_optimizer(_carried(optimizer, state, result, old_config, plans))
    else:
        result = result.with_optimizer(fresh_state(optimizer, len(result.tensors()) - len(state.tensors()), state.name))
    lines.append("optimizer: moments " + ("carried, zero for new history weights" if carry_moments else "dropped"))
    result, line = reset_schedule(result, keep_schedule)
    return result, [*lines, line]


def _carried(
    optimizer: Mapping[str, Any],
    old: CheckpointState,
    new: CheckpointState,
    config: DLCLTransformerConfig,
    plans: Sequence[GrownStack],
) -> dict[str, Any]:
    """Return the grown checkpoint's state of the optimizer."""

    def grown(states: States) -> States:
        for plan in plans:
            states = plan.states(states)
        return states

    left_out = [weight_name(plan.new.name) for plan in plans] if config.dlcl_freeze else []
    # In half precision, fairseq saves tied tensors apart.
    if config.one_table:
        left_out.append("decoder.embed_tokens.weight")
    if config.one_table or config.share_decoder_input_output_embed:
        left_out.append("decoder.output_projection.weight")
    return carried_state(optimizer, _trained(old, left_out), _trained(new, left_out), grown, old.name)


def _trained(state: CheckpointState, left_out: list[str]) -> dict[str, Tensor]:
    """Return the parameters that a training from a checkpoint changes, in the order of the optimizer."""
    criterion = {f"criterion.{name}": tensor for name, tensor in state.criterion_tensors().items()}
    tensors = {**state.tensors(), **criterion}
    return {name: tensors[name] for name in parameter_names(tensors, left_out)}
