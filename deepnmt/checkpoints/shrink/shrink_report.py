"""Says what was kept, a line a fact; layers, groups and rows are counted from 1."""

from __future__ import annotations

from collections.abc import Iterator

from deepnmt.checkpoints.grow.grow_report import depth_lines, scale_lines
from deepnmt.checkpoints.shrink.shrink_plan import gathered
from deepnmt.checkpoints.shrink.shrink_stacks import StackPlan


def stack_lines(plan: StackPlan) -> Iterator[str]:
    """What became of one stack."""
    stack = plan.stack
    if plan.shrinks:
        yield from depth_lines(stack, plan.old, plan.new)
        for new, old in enumerate(plan.layers.sources, start=1):
            yield f"{stack} layer {new} <- layer {old + 1}"
    yield from scale_lines(stack, plan.old, plan.new, plan.rescaled)
    if plan.history is None:
        return
    oldest = plan.new.stack(stack).oldest
    for row, source in enumerate(plan.history.rows, start=1):
        weights = gathered(plan.history, row, oldest).values()
        yield f"{stack} history row {row} <- row {source}, weights of " + ", ".join(map(_text, weights))
    for group, norm in enumerate(plan.history.norms, start=1):
        yield f"{stack} history norm {group} <- norm {norm}"


def _text(outputs: list[int]) -> str:
    """The old outputs, from 0, whose weights a new one gets."""
    return "+".join(map(str, outputs)) or "none"
