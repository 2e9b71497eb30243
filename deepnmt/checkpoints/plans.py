"""The origin of each part of a stack of another depth: numbers alone, for growing and shrinking.

`tensors.py` applies the plans to tensors. Layers are numbered from 0 as in the names of tensors. Groups, their outputs
and the rows of W are numbered as in (5) and (6): output 0 is the embedding, row g the input of group g. The row after
the last group is the output of the stack.

A stack grows by a strategy (Li 2020, EMNLP, arXiv 2010.03737):

    stack        the whole stack again on top of itself, as often as the depth asks for      1 2 3 1 2 3
    top          the upper layers again                                                      1 2 3 2 3
    repeat-top   the top layer again and again                                               1 2 3 3 3
    interleave   after each layer its copies                                                 1 1 2 2 3 3

A stack shrinks to the layers that are kept. A group without a kept layer disappears together with its output; the rest
of each other group stays a group.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deepnmt.model.groups import CHAINED, group_boundaries

STRATEGIES = ("stack", "top", "repeat-top", "interleave")
Oldest = Callable[[int], int]


@dataclass(frozen=True)
class LayerPlan:
    """The origin of the new stack's layers.

    Attributes:
        sources: for each of them the old layer that provides its tensors
        ends: for 0, 1, .. old layers, the number of new layers that replace them
    """

    sources: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def changes(self) -> bool:
        """Whether the stack gets another depth."""
        return len(self.sources) != len(self.ends) - 1

    def added(self, layer: int) -> bool:
        """Return whether a new layer is a copy, not the old layer itself."""
        return self.ends[self.sources[layer]] != layer

    def old_layers(self) -> list[int]:
        """Return the new layers that are old ones and not copies."""
        return [layer for layer in range(len(self.sources)) if not self.added(layer)]


@dataclass(frozen=True)
class HistoryPlan:
    """The origin of the new stack's connections.

    Attributes:
        outputs: for each of its outputs, from 0, the corresponding old output; None: a new output
        rows: for each of its rows, from 1, the corresponding old row; None: a new row
        norms: for each of its groups, from 1, the number of the old LN to copy
    """

    outputs: tuple[int | None, ...]
    rows: tuple[int | None, ...]
    norms: tuple[int, ...]

    def keeps(self, rows: int) -> bool:
        """Return whether the `rows` old rows are all among the new ones."""
        return set(range(1, rows + 1)) <= set(self.rows)

    def reads(self, row: int, oldest: Oldest) -> dict[int, int]:
        """Return the old output behind each new one whose weight a new row, from 1, keeps from its old row."""
        source = self.rows[row - 1]
        if source is None:
            return {}
        found = {column: self.outputs[column] for column in range(oldest(row), row)}
        return {new: old for new, old in found.items() if old is not None and oldest(source) <= old < source}


def unchanged(depth: int) -> LayerPlan:
    """Return the plan of a stack that keeps its depth."""
    return LayerPlan(tuple(range(depth)), tuple(range(depth + 1)))


def fitting_groups(groups: str, layers: LayerPlan) -> str:
    """Return the ends of the groups of `groups`, none of `CHAINED`, in the new stack, and the top; as text."""
    old = group_boundaries(groups, len(layers.ends) - 1)
    assert old is not None
    return ",".join(map(str, sorted({*(layers.ends[end] for end in old), len(layers.sources)})))


def grown_layers(strategy: str, old: int, new: int) -> LayerPlan:
    """Return the layers of a stack that grows from depth `old` to depth `new`. Raises `ValueError` if it cannot."""
    added = new - old
    if added <= 0:
        raise ValueError(f"must be above the present depth, {old}, but is {new}")
    if strategy in ("stack", "interleave") and new % old:
        raise ValueError(f"must be a multiple of the present depth, {old}, with --strategy {strategy}, but is {new}")
    if strategy == "top" and added > old:
        raise ValueError(f"must be at most twice the present depth, {old}, with --strategy top, but is {new}")
    if strategy == "interleave":
        times = new // old
        return LayerPlan(tuple(layer // times for layer in range(new)), tuple(range(0, new + 1, times)))
    copies = {
        "stack": [layer % old for layer in range(old, new)],
        "top": range(old - added, old),
        "repeat-top": [old - 1] * added,
    }[strategy]
    return LayerPlan((*range(old), *copies), tuple(range(old + 1)))


def grown_groups(groups: str, layers: LayerPlan, wanted: str | None = None) -> str:
    """Return the groups of the new stack, as the option's text.

    Args:
        groups: the text for the old stack: one of `CHAINED` and a size stay as they are. Ragged boundaries are scaled
            (interleave) or get the new layers as one more group (else)
        layers: the growth of the stack
        wanted: the text to use instead

    Raises:
        ValueError: names the required and the actual text; an old group would not end where a new one does
    """
    if wanted is None:
        wanted = fitting_groups(groups, layers) if "," in groups else groups
    if groups in CHAINED or wanted in CHAINED:
        if groups != wanted:
            raise ValueError(f"must be {groups if groups in CHAINED else 'groups'} as before, but is '{wanted}'")
        return wanted
    new = group_boundaries(wanted, len(layers.sources))
    fitting = fitting_groups(groups, layers)
    assert new is not None
    if missing := [end for end in fitting.split(",")[1:] if int(end) not in new]:
        raise ValueError(
            f"must end a group after layer {missing[0]}, where a present one ends, but is '{wanted}'; '{fitting}' does"
        )
    return wanted


def cuts_a_group(layers: LayerPlan, old: Sequence[int], new: Sequence[int]) -> bool:
    """Return whether a new group ends between the layers of one old group, by the boundaries of both stacks."""
    # From the first layer of an old group to its last; copies of the last may have groups of their own.
    return any(layers.ends[start] < end <= layers.ends[last - 1] for start, last in zip(old, old[1:]) for end in new)


def grown_history(
    layers: LayerPlan, old: Sequence[int], new: Sequence[int], oldest: Oldest, bypass: bool = False
) -> HistoryPlan:
    """Return the connections of a stack that grows.

    The new group that ends with the last copy of an old group's last layer gives the old group's output. The row after
    it keeps that position: with the new layers on top, the old output row becomes the input of the first new group.
    A row that could not reach all its old inputs is a new one.

    Args:
        layers: the growth of the stack
        old: boundaries of the old stack
        new: boundaries of the new one, with the ends of the old groups among them
        oldest: the oldest output that a row reads, in both stacks
        bypass: the new group with an old group's last layer itself gives the old group's output. The output row is
            the old output row: groups of copies are left unread
    """
    size = len(old)  # rows of the old stack
    end = {layers.ends[boundary]: output for output, boundary in enumerate(old)}
    if bypass:
        tops = {layers.ends[boundary - 1]: output for output, boundary in enumerate(old) if output}
        held = [[tops[layer] for layer in range(low, high) if layer in tops] for low, high in zip(new, new[1:])]
        outputs = (0, *(next(iter(among), None) for among in held))
    else:
        outputs = tuple(end.get(boundary) for boundary in new)
    rows = [end[boundary] + 1 if boundary in end else None for boundary in new]
    if bypass:
        rows[-1] = size
    place = {output: index for index, output in enumerate(outputs) if output is not None}
    reached = [
        source if source and all(place[read] >= oldest(row) for read in range(oldest(source), source)) else None
        for row, source in enumerate(rows, start=1)
    ]
    norms = tuple(sum(layers.ends[start] < boundary for start in old[:-1]) for boundary in new[1:])
    return HistoryPlan(outputs, tuple(reached), norms)


def every(n: int, depth: int) -> tuple[int, ...]:
    """Return the first of each `n` layers, from 1: the inverse of growth by `interleave`. Raises `ValueError`."""
    if not 2 <= n <= depth:
        raise ValueError(f"must be from 2 to the present depth, {depth}, but is {n}")
    return tuple(range(1, depth + 1, n))


def parse_layers(text: str) -> tuple[int, ...]:
    """Return the layers, from 1, that an option such as `1,3,5` names. Raises `ValueError` for other texts."""
    if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise ValueError(f"must be layers such as 1,3,5, counted from 1, but is '{text}'")
    return tuple(map(int, text.split(",")))


def kept_layers(kept: Sequence[int], depth: int) -> LayerPlan:
    """Return the plan of a stack of depth `depth` that keeps some layers, from 1. Raises `ValueError` if it cannot."""
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
    """Return the option's text for the groups of the shallower stack: a size is kept if it still fits."""
    if groups in CHAINED:
        return groups
    fitting, depth = fitting_groups(groups, layers), len(layers.sources)
    stays = "," not in groups and int(groups) <= depth
    return groups if stays and group_boundaries(groups, depth) == group_boundaries(fitting, depth) else fitting


def shrunk_history(layers: LayerPlan, old: Sequence[int], normalize_before: bool) -> HistoryPlan:
    """Return the connections of the shallower stack.

    Args:
        layers: the kept layers
        old: boundaries of the old stack
        normalize_before: pre-norm (5), whose LN belong to the outputs, rather than post-norm (6), where a row's belongs
            to the row
    """
    kept = [g for g in range(1, len(old)) if layers.ends[old[g]] > layers.ends[old[g - 1]]]
    rows = (1, *kept[1:], len(old))
    norms = tuple(kept) if normalize_before else tuple(row - 1 for row in rows[1:])
    return HistoryPlan((0, *kept), rows, norms)


def gathered(plan: HistoryPlan, row: int, oldest: Oldest) -> dict[int, list[int]]:
    """Return the old outputs whose weights each output gets that a new row, from 1, can read."""
    source = plan.rows[row - 1]
    assert source is not None
    result: dict[int, list[int]] = {column: [] for column in range(oldest(row), row)}
    for output in range(oldest(source), source):
        below = max(column for column in range(row) if (plan.outputs[column] or 0) <= output)
        result[below].append(output)
    return result
