"""Which parts of a stack are kept when it becomes shallower, and what becomes of its connections.

A group whose layers all go is gone, and its output with it; of the others the
rest stays a group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from deepnmt.checkpoints.plans import HistoryPlan, LayerPlan, Oldest, fitting_groups
from deepnmt.model.groups import PLAIN, group_boundaries


def every(n: int, depth: int) -> tuple[int, ...]:
    """Return the first of each `n` layers, from 1; it is what growth by `interleave` had before.

    Raises:
        ValueError: says what `n` must be and is
    """
    if not 2 <= n <= depth:
        raise ValueError(f"must be from 2 to the present depth, {depth}, but is {n}")
    return tuple(range(1, depth + 1, n))


def parse_layers(text: str) -> tuple[int, ...]:
    """Return the layers, from 1, that an option such as `1,3,5` names.

    Raises:
        ValueError: says what the text must be and is
    """
    if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise ValueError(f"must be layers such as 1,3,5, counted from 1, but is '{text}'")
    return tuple(map(int, text.split(",")))


def kept_layers(kept: Sequence[int], depth: int) -> LayerPlan:
    """Return the layers of a stack of depth `depth` that becomes shallower.

    Args:
        kept: the layers to keep, from 1, in their order
        depth: the present one

    Raises:
        ValueError: says what `kept` must be and is
    """
    text = ",".join(map(str, kept))
    if not kept or any(low >= high for low, high in zip(kept, kept[1:])):
        raise ValueError(f"must name layers in their order, each once, but is '{text}'")
    if unknown := [layer for layer in kept if not 1 <= layer <= depth]:
        raise ValueError(f"must name layers from 1 to the present depth, {depth}, but names {unknown[0]}")
    if len(kept) == depth:
        raise ValueError(f"must leave out at least one of the {depth} layers, but is '{text}'")
    ends = tuple(sum(layer <= count for layer in kept) for count in range(depth + 1))
    return LayerPlan(tuple(layer - 1 for layer in kept), ends)


def shrunk_groups(groups: str, layers: LayerPlan) -> str:
    """Return the groups of the shallower stack, as the option's text: a size stays where it still fits.

    Args:
        groups: the text for the old stack
        layers: what is kept of it
    """
    if groups == PLAIN:
        return groups
    fitting, depth = fitting_groups(groups, layers), len(layers.sources)
    stays = "," not in groups and int(groups) <= depth
    return groups if stays and group_boundaries(groups, depth) == group_boundaries(fitting, depth) else fitting


def shrunk_history(layers: LayerPlan, old: Sequence[int], normalize_before: bool) -> HistoryPlan:
    """Return the connections of the shallower stack.

    Args:
        layers: what is kept
        old: boundaries of the old stack
        normalize_before: pre-norm (5), whose LN belong to the outputs, rather than post-norm (6), where a row's belongs
            to the row
    """
    kept = [g for g in range(1, len(old)) if layers.ends[old[g]] > layers.ends[old[g - 1]]]
    rows = (1, *kept[1:], len(old))
    norms = tuple(kept) if normalize_before else tuple(row - 1 for row in rows[1:])
    return HistoryPlan((0, *kept), rows, norms)


def gathered(plan: HistoryPlan, row: int, oldest: Oldest) -> dict[int, list[int]]:
    """Return the old outputs whose weights each output gets that a new row can read.

    Args:
        plan: what is kept
        row: from 1
        oldest: the oldest output that a row reads, in both stacks
    """
    source = plan.rows[row - 1]
    assert source is not None
    result: dict[int, list[int]] = {column: [] for column in range(oldest(row), row)}
    for output in range(oldest(source), source):
        below = max(column for column in range(row) if (plan.outputs[column] or 0) <= output)
        result[below].append(output)
    return result
