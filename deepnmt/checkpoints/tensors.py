"""Apply the plans of `plans.py` to the tensors of a model, or to what an optimizer keeps beside each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Optional

from torch import Tensor

from deepnmt.checkpoints.plans import HistoryPlan, LayerPlan

# How far below the largest of a row the logit of an output lies that is not to be read: exp(-20) is 2e-9.
UNREAD_LOGIT = 20.0


def weight_name(stack: str) -> str:
    """Return the name of W in a state dict."""
    return f"{stack}.history.weight"


def sources(names: Iterable[str], stack: str, layers: LayerPlan, history: Optional[HistoryPlan]) -> dict[str, str]:
    """Return the old name behind each name of the new model, in the model's order.

    Args:
        names: of the old model, in its order; any of them may be absent
        stack: "encoder" or "decoder"
        layers: how the stack changes
        history: how its connections change; None where it is plain
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


def planned_tensors(
    tensors: Mapping[str, Tensor],
    stack: str,
    layers: LayerPlan,
    history: Optional[HistoryPlan],
    rewrite: Callable[[Tensor], Tensor],
) -> dict[str, Tensor]:
    """Return the tensors of the new model by their names, in the model's order; copies share no memory.

    Args:
        tensors: of the old model, in its order; any of them may be absent
        stack: "encoder" or "decoder"
        layers: how the stack changes
        history: how its connections change; None where it is plain
        rewrite: the new W from the old one
    """
    origin = sources(tensors, stack, layers, history)
    result = {new: tensors[old] if new == old else tensors[old].clone() for new, old in origin.items()}
    if weight_name(stack) in result:
        result[weight_name(stack)] = rewrite(result[weight_name(stack)])
    return result
