"""Say what a growth did, a line a fact; layers, groups and rows are counted from 1."""

from __future__ import annotations

from collections.abc import Iterator

from deepnmt.checkpoints.facts import layer_facts, norm_facts, scale_facts
from deepnmt.checkpoints.grow.grow_stacks import GrownStack


def growth_lines(plan: GrownStack) -> Iterator[str]:
    """Yield what became of one stack."""
    identities = plan.preserved.identities if plan.preserved is not None else ()
    if plan.layers.changes:
        yield from layer_facts(plan, lambda layer: ", as the identity" if layer in identities else "")
    yield from scale_facts(plan, plan.preserved is not None)
    if plan.history is not None:
        yield from _row_facts(plan)
        yield from norm_facts(plan)


def _row_facts(plan: GrownStack) -> Iterator[str]:
    assert plan.history is not None
    stack, oldest = plan.new.name, plan.new.oldest
    for row, source in enumerate(plan.history.rows, start=1):
        count = row - oldest(row)
        if source is not None:
            unread = count - len(plan.history.reads(row, oldest))
            yield f"{stack} history row {row} <- row {source}" + (f", {unread} new outputs unread" if unread else "")
        else:
            yield f"{stack} history row {row}: " + ("newest output alone" if plan.chained else f"mean of {count}")
