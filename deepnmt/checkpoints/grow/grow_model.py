"""Makes a deeper checkpoint out of a shallower one, in one explicit step (methods 11: Li 2020, EMNLP).

Model, options, moving averages of the model, optimizer and learning rate change; epoch, data position, number of
updates and scores go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from deepnmt.checkpoints.file import check_target, check_tensors, model_config, model_options, read, write
from deepnmt.checkpoints.grow.grow_report import stack_lines
from deepnmt.checkpoints.grow.grow_stacks import Growth, StackPlan, plan_stacks
from deepnmt.checkpoints.optimizer import States, carried_state, fresh_state, parameter_names
from deepnmt.checkpoints.rewrite import NO_OPTIMIZER, reset_schedule, with_model
from deepnmt.checkpoints.tensors import weight_name
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig


def grow_checkpoint(
    source: Path, target: Path, growth: Growth, carry_moments: bool = False, keep_schedule: bool = False
) -> list[str]:
    """Write a deeper checkpoint, whole or not at all.

    Args:
        source: a checkpoint of fairseq's
        target: the new one, which must not exist
        growth: what to grow, and how
        carry_moments: see `grow`
        keep_schedule: see `grow`

    Returns:
        what was done, a line a fact

    Raises:
        UserError: the growth is not possible, or one of the files is not as it must be
    """
    check_target(source, target)
    state, lines = grow(read(source), growth, carry_moments, keep_schedule)
    write(state, target)
    return lines


def grow(
    state: Mapping[str, Any], growth: Growth, carry_moments: bool = False, keep_schedule: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The contents of a deeper checkpoint, and what was done, a line a fact.

    Args:
        state: the contents of a checkpoint of fairseq's; they stay as they are
        growth: what to grow, and how
        carry_moments: the optimizer keeps what it knows of the layers that were kept or copied; else it starts afresh
        keep_schedule: the learning rate goes on; else it goes back to its peak (17)

    Raises:
        UserError: the growth is not possible, or the checkpoint is not one of this model
    """
    old_config = model_config(model_options(state))
    check_tensors(state["model"], old_config)
    config, plans = plan_stacks(old_config, growth)
    lines = [line for plan in plans for line in stack_lines(plan, old_config)]

    changed = {f"{stack}_{name}" for stack in growth.depths for name in ("layers", "groups")}
    options = {name: getattr(config, name) for name in sorted(changed)}
    result, more = with_model(state, options, lambda tensors: _tensors(tensors, plans))
    lines += more

    optimizer = state.get("last_optimizer_state")
    if optimizer is None:
        if carry_moments:
            raise UserError("--carry-moments needs an optimizer's state in the checkpoint, but there is none")
        return result, [*lines, NO_OPTIMIZER]
    result["last_optimizer_state"] = _optimizer(optimizer, state, result, old_config, plans, carry_moments)
    lines.append("optimizer: moments " + ("carried, zero for new history weights" if carry_moments else "dropped"))
    return result, [*lines, reset_schedule(result, keep_schedule)]


def _tensors(tensors: Mapping[str, Tensor], plans: list[StackPlan]) -> dict[str, Tensor]:
    for plan in plans:
        tensors = plan.tensors(tensors)
    return dict(tensors)


def _states(states: States, plans: list[StackPlan]) -> States:
    for plan in plans:
        states = plan.states(states)
    return states


def _optimizer(
    optimizer: Mapping[str, Any],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    config: DLCLTransformerConfig,
    plans: list[StackPlan],
    carry: bool,
) -> dict[str, Any]:
    """The state of the grown checkpoint's optimizer."""
    if not carry:
        return fresh_state(optimizer, len(new["model"]) - len(old["model"]))
    left_out = [weight_name(plan.stack) for plan in plans] if config.dlcl_freeze else []
    # In half precision, fairseq saves tied tensors apart.
    if config.share_all_embeddings:
        left_out.append("decoder.embed_tokens.weight")
    if config.share_all_embeddings or config.share_decoder_input_output_embed:
        left_out.append("decoder.output_projection.weight")
    before, after = _trained(old, left_out), _trained(new, left_out)
    return carried_state(optimizer, before, after, lambda states: _states(states, plans))


def _trained(state: Mapping[str, Any], left_out: list[str]) -> dict[str, Tensor]:
    """The parameters that a training from a checkpoint changes, in the order of the optimizer."""
    # A criterion may have parameters of its own.
    criterion = {f"criterion.{name}": tensor for name, tensor in (state.get("criterion") or {}).items()}
    tensors = {**state["model"], **criterion}
    return {name: tensors[name] for name in parameter_names(tensors, left_out)}
