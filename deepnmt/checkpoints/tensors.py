"""Applies the plans of `plan.py` to the tensors of a model, or to what an optimizer keeps beside each of them.

Shapes: G groups of layers, S slices of the channels; W is (G + 1) x (G + 1) x S, row g at index g - 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Optional

import torch
from torch import Tensor

if TYPE_CHECKING:
    from deepnmt.checkpoints.grow.grow_plan import HistoryPlan, LayerPlan

# How far below the largest of a row the logit of an output lies that is not to be read: exp(-20) is 2e-9.
UNREAD_LOGIT = 20.0


def weight_name(stack: str) -> str:
    """The name of W in a state dict."""
    return f"{stack}.history.weight"


def sources(names: Iterable[str], stack: str, layers: LayerPlan, history: Optional[HistoryPlan]) -> dict[str, str]:
    """For each tensor of the new model the old one that it comes from, by their names in the model's order.

    Args:
        names: of the old model, in its order; any of them may be absent
        stack: "encoder" or "decoder"
        layers: how the stack changes
        history: the same of its connections; None where it is plain
    """
    names = list(names)
    result: dict[str, str] = {}
    done = set()
    for name in names:
        found = re.fullmatch(rf"({stack}\.(?:layers|history\.layer_norms)\.)\d+\..+", name)
        if found is None:
            result[name] = name
        elif found[1] not in done:
            done.add(found[1])
            numbers: Sequence[int] = layers.sources
            if found[1].endswith("norms."):
                assert history is not None
                numbers = [norm - 1 for norm in history.norms]
            for new, old in enumerate(numbers):
                start = f"{found[1]}{old}."
                result.update({f"{found[1]}{new}.{n[len(start) :]}": n for n in names if n.startswith(start)})
    return result


def grow_tensors(
    tensors: Mapping[str, Tensor],
    stack: str,
    layers: LayerPlan,
    history: Optional[HistoryPlan],
    rewrite: Callable[[Tensor], Tensor],
) -> dict[str, Tensor]:
    """The tensors of the new model by their names, in the model's order; copies share no memory.

    Args:
        tensors: of the old model, in its order; any of them may be absent
        stack: "encoder" or "decoder"
        layers: how the stack changes
        history: the same of its connections; None where it is plain
        rewrite: the new W from the old one
    """
    origin = sources(tensors, stack, layers, history)
    grown = {new: tensors[old] if new == old else tensors[old].clone() for new, old in origin.items()}
    if weight_name(stack) in grown:
        grown[weight_name(stack)] = rewrite(grown[weight_name(stack)])
    return grown


def kept_weight(weight: Tensor, plan: HistoryPlan, oldest: Callable[[int], int]) -> Tensor:
    """The new W with the old rows and columns in their new places, and zero elsewhere, in single precision at least.

    Args:
        weight: the old W
        plan: how the connections change
        oldest: the oldest output that a row reads, in both stacks
    """
    size = len(plan.rows)
    result = weight.new_zeros(size, size, weight.size(2), dtype=torch.promote_types(weight.dtype, torch.float32))
    for row, source in enumerate(plan.rows, start=1):
        for new, old in plan.reads(row, oldest).items():
            assert source is not None
            result[row - 1, new] = weight[source - 1, old]
    return result


def grow_weight(
    weight: Tensor, plan: HistoryPlan, oldest: Callable[[int], int], softmax: bool, chained: bool = False
) -> Tensor:
    """The new W, of the type of the old one.

    Args:
        weight: the old W
        plan: how the connections change
        oldest: the oldest output that a row reads, in both stacks
        softmax: a row is normalised by a softmax
        chained: a new row reads the newest output alone, instead of the mean of all
    """
    result = kept_weight(weight, plan, oldest)
    for row, source in enumerate(plan.rows, start=1):
        first = oldest(row)
        if source is not None:
            if softmax:
                largest = weight[source - 1, oldest(source) : source].to(result.dtype).amax(dim=0)
                unread = [column for column in range(first, row) if column not in plan.reads(row, oldest)]
                result[row - 1, unread] = largest - UNREAD_LOGIT
        elif chained:
            result[row - 1, first:row] = -UNREAD_LOGIT if softmax else 0.0
            result[row - 1, row - 1] = 0.0 if softmax else 1.0
        else:
            result[row - 1, first:row] = 0.0 if softmax else 1.0 / (row - first)
    return result.to(weight.dtype)
