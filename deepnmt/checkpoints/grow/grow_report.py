"""Says what a growth did, a line a fact; layers, groups and rows are counted from 1."""

from __future__ import annotations

from collections.abc import Iterator

from deepnmt.checkpoints.grow.grow_stacks import StackPlan
from deepnmt.model.config import DLCLTransformerConfig


def stack_lines(plan: StackPlan, old: DLCLTransformerConfig) -> Iterator[str]:
    """What became of one stack, whose model had the options `old`."""
    stack, preserved = plan.stack, plan.preserved
    if plan.grows:
        yield from depth_lines(stack, old, plan.config)
        for layer, source in enumerate(plan.layers.sources):
            identity = preserved is not None and layer in preserved.identities
            yield f"{stack} layer {layer + 1} <- layer {source + 1}" + (", as the identity" if identity else "")
    yield from scale_lines(stack, old, plan.config, preserved is not None)
    if plan.history is not None:
        yield from _history_lines(plan)


def depth_lines(stack: str, old: DLCLTransformerConfig, new: DLCLTransformerConfig) -> Iterator[str]:
    """Layers and groups of a stack before and after."""
    yield f"{stack} layers: {old.depth(stack)} -> {new.depth(stack)}"
    groups = [getattr(config, f"{stack}_groups") for config in (old, new)]
    yield f"{stack} groups: {groups[0]} -> {groups[1]}"


def scale_lines(stack: str, old: DLCLTransformerConfig, new: DLCLTransformerConfig, made_up: bool) -> Iterator[str]:
    """What another depth of either stack does to DeepNorm's scale (4), and whether the weights make up for it."""
    scales = [config.stack(stack).residual_scale for config in (old, new)]
    if scales[0] != scales[1]:
        text = ", made up for in the last projection of each sublayer" if made_up else ""
        yield f"{stack} DeepNorm scale: {scales[0]:.4g} -> {scales[1]:.4g}{text}"


def _history_lines(plan: StackPlan) -> Iterator[str]:
    assert plan.history is not None
    stack, oldest = plan.stack, plan.oldest
    for row, source in enumerate(plan.history.rows, start=1):
        count = row - oldest(row)
        if source is not None:
            unread = count - len(plan.history.reads(row, oldest))
            text = f"<- row {source}" + (f", {unread} new outputs unread" if unread else "")
        elif plan.chained:
            text = "newest output alone"
        else:
            text = f"mean of {count}"
        yield f"{stack} history row {row}{' ' if source is not None else ': '}{text}"
    for group, norm in enumerate(plan.history.norms, start=1):
        yield f"{stack} history norm {group} <- norm {norm}"
