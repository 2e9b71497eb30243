"""Say what was kept, a line a fact; layers, groups and rows are counted from 1."""

from __future__ import annotations

from collections.abc import Iterator

from deepnmt.checkpoints.facts import layer_facts, norm_facts, scale_facts
from deepnmt.checkpoints.shrink.shrink_plan import gathered
from deepnmt.checkpoints.shrink.shrink_stacks import ShrunkStack


def shrinking_lines(plan: ShrunkStack) -> Iterator[str]:
    """Yield what became of one stack."""
    if plan.layers.changes:
        yield from layer_facts(plan)
    yield from scale_facts(plan, plan.rescaled)
    if plan.history is not None:
        for row, source in enumerate(plan.history.rows, start=1):
            weights = gathered(plan.history, row, plan.new.oldest).values()
            text = ", ".join("+".join(map(str, outputs)) or "none" for outputs in weights)
            yield f"{plan.new.name} history row {row} <- row {source}, weights of {text}"
        yield from norm_facts(plan)
