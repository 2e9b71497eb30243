"""What each part of a stack of another depth comes from: numbers alone, for growing and shrinking.

`tensors.py` applies the plans to tensors. Layers are numbered from 0 as in the names of tensors; groups, their outputs
and the rows of W as in (5) and (6): output 0 is the embedding, row g the input of group g, and the row after the last
group the output of the stack.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

from deepnmt.model.groups import group_boundaries

STRATEGIES = ("stack", "top", "repeat-top", "interleave")
Oldest = Callable[[int], int]


@dataclass(frozen=True)
class LayerPlan:
    """Where the layers of the new stack come from.

    Attributes:
        sources: for each of them the old layer whose tensors it gets
        ends: for 0, 1, .. old layers, how many of the new ones stand for them
    """

    sources: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def changes(self) -> bool:
        """Whether the stack gets another depth."""
        return len(self.sources) != len(self.ends) - 1

    def added(self, layer: int) -> bool:
        """Return whether a new layer is a copy beside the old layer itself."""
        return self.ends[self.sources[layer]] != layer


@dataclass(frozen=True)
class HistoryPlan:
    """Where the connections of the new stack come from.

    Attributes:
        outputs: for each of its outputs, from 0, the old output that it is; None: there was none
        rows: for each of its rows, from 1, the old row that it is; None: there was none
        norms: for each of its groups, from 1, the number of the old LN to copy
    """

    outputs: tuple[Optional[int], ...]
    rows: tuple[Optional[int], ...]
    norms: tuple[int, ...]

    def keeps(self, rows: int) -> bool:
        """Return whether the `rows` old rows are all among the new ones."""
        return set(range(1, rows + 1)) <= set(self.rows)

    def reads(self, row: int, oldest: Oldest) -> dict[int, int]:
        """Return the old output behind each new one whose weight a new row keeps from its old row.

        Args:
            row: from 1
            oldest: the oldest output that a row reads, in both stacks
        """
        source = self.rows[row - 1]
        if source is None:
            return {}
        found = {column: self.outputs[column] for column in range(oldest(row), row)}
        return {new: old for new, old in found.items() if old is not None and oldest(source) <= old < source}


def unchanged(depth: int) -> LayerPlan:
    """Return the plan of a stack that keeps its depth."""
    return LayerPlan(tuple(range(depth)), tuple(range(depth + 1)))


def fitting_groups(groups: str, layers: LayerPlan) -> str:
    """Return the boundaries whose groups end where the old ones do, and at the top; as the option's text.

    Args:
        groups: the option's text for the old stack, not "none"
        layers: how the stack changes
    """
    old = group_boundaries(groups, len(layers.ends) - 1)
    assert old is not None
    return ",".join(map(str, sorted({*(layers.ends[end] for end in old), len(layers.sources)})))
