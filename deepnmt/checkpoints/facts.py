"""Say what became of a stack, a line a fact; layers, groups and rows are counted from 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from deepnmt.checkpoints.stack_plan import StackPlan


def layer_facts(plan: StackPlan, remark: Callable[[int], str] = lambda layer: "") -> Iterator[str]:
    """Yield a stack's layers and groups before and after, and where each layer comes from.

    Args:
        plan: of a stack that gets another depth
        remark: what else to say of a layer, from 0
    """
    stack = plan.new.name
    yield f"{stack} layers: {plan.old.layers} -> {plan.new.layers}"
    yield f"{stack} groups: {plan.old.groups} -> {plan.new.groups}"
    for layer, source in enumerate(plan.layers.sources):
        yield f"{stack} layer {layer + 1} <- layer {source + 1}{remark(layer)}"


def scale_facts(plan: StackPlan, made_up: bool) -> Iterator[str]:
    """Yield what another depth of either stack does to DeepNorm's scale (4).

    Args:
        plan: of the stack
        made_up: the weights make up for it
    """
    before, after = plan.old.residual_scale, plan.new.residual_scale
    if before != after:
        text = ", made up for in the last projection of each sublayer" if made_up else ""
        yield f"{plan.new.name} DeepNorm scale: {before:.4g} -> {after:.4g}{text}"


def norm_facts(plan: StackPlan) -> Iterator[str]:
    """Yield where the norms of a stack's history come from; there is a history."""
    assert plan.history is not None
    for group, norm in enumerate(plan.history.norms, start=1):
        yield f"{plan.new.name} history norm {group} <- norm {norm}"
