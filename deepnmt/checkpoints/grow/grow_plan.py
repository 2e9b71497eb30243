"""What a stack grows by, and what its new parts come from (Li 2020, EMNLP, arXiv 2010.03737).

stack        the whole stack again on top of itself, as often as the depth asks for      1 2 3 1 2 3
top          the upper layers again                                                      1 2 3 2 3
repeat-top   the top layer again and again                                               1 2 3 3 3
interleave   after each layer its copies                                                 1 1 2 2 3 3
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from deepnmt.checkpoints.plans import STRATEGIES, HistoryPlan, LayerPlan, Oldest, fitting_groups
from deepnmt.model.groups import PLAIN, group_boundaries

__all__ = ["STRATEGIES"]


def grown_layers(strategy: str, old: int, new: int) -> LayerPlan:
    """Return the layers of a stack that grows from depth `old` to depth `new`.

    Raises:
        ValueError: says what the new depth must be and is
    """
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


def grown_groups(groups: str, layers: LayerPlan, wanted: Optional[str] = None) -> str:
    """Return the groups of the new stack, as the option's text.

    Args:
        groups: the text for the old stack: "none" stays none, a size stays a size, and ragged boundaries are scaled
            (interleave) or get the new layers as one more group (else)
        layers: how the stack grows
        wanted: the text to have instead

    Raises:
        ValueError: says what the text must be and is; an old group would not end where a new one does
    """
    if wanted is None:
        wanted = fitting_groups(groups, layers) if "," in groups else groups
    if PLAIN in (groups, wanted):
        if groups != wanted:
            raise ValueError(f"must be {'none' if groups == PLAIN else 'groups'} as before, but is '{wanted}'")
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
    """Return whether a new group ends between the layers of one old group.

    Args:
        layers: how the stack grows
        old: boundaries of the old stack
        new: boundaries of the new one
    """
    # From the first layer of an old group to its last; copies of the last may have groups of their own.
    return any(layers.ends[start] < end <= layers.ends[last - 1] for start, last in zip(old, old[1:]) for end in new)


def grown_history(
    layers: LayerPlan,
    old: Sequence[int],
    new: Sequence[int],
    oldest: Oldest,
    bypass: bool = False,
) -> HistoryPlan:
    """Return the connections of a stack that grows.

    An old group's output is that of the new group that ends with the last copy of its last layer, and the row after it
    stays the row after it: where the new layers are on top, the old output row becomes the input of the first new
    group. A row that could not reach all it read is a new one.

    Args:
        layers: how the stack grows
        old: boundaries of the old stack
        new: boundaries of the new one, with the ends of the old groups among them
        oldest: the oldest output that a row reads, in both stacks
        bypass: an old group's output is that of the new group that holds its last layer itself, and the output row is
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
