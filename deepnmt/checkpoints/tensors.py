"""Apply the plans of `plans.py` to the tensors of a model, or to an optimizer's states of them.

Shapes: G groups of layers, S slices of the channels; W is (G + 1) x (G + 1) x S, row g at index g - 1.
"""

import re
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from deepnmt.checkpoints.plans import HistoryPlan, LayerPlan, Oldest, gathered
from deepnmt.model.stack import StackOptions

# Distance of a hidden output's logit from the largest of its row: exp(-20) is 2e-9.
UNREAD_LOGIT = 20.0


def weight_name(stack: str) -> str:
    """Return the name of W in a state dict."""
    return f"{stack}.history.weight"


def sources(names: Iterable[str], stack: str, layers: LayerPlan, history: HistoryPlan | None) -> dict[str, str]:
    """Return the old name behind each name of the new model, in the model's order; old names may be absent."""
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


def resized_sums(weight: Tensor, stack: StackOptions, layers: LayerPlan) -> Tensor:
    """Return the weights of `deepnmt/model/transparent.py` after a change of a stack's depth, (L + 1) x R.

    A new output has the logit of the layer that it copies, and a new decoder layer the logits of the one that it
    copies.
    """
    if stack.name == "encoder":
        return weight[[0, *(layer + 1 for layer in layers.sources)]]
    return weight[:, list(layers.sources)] if stack.sums > 1 else weight


def kept_weight(weight: Tensor, plan: HistoryPlan, oldest: Oldest) -> Tensor:
    """Return the new W, in single precision at least: old rows and columns in their new places, zero elsewhere."""
    size = len(plan.rows)
    result = weight.new_zeros(size, size, weight.size(2), dtype=torch.promote_types(weight.dtype, torch.float32))
    for row, source in enumerate(plan.rows, start=1):
        for new, old in plan.reads(row, oldest).items():
            assert source is not None
            result[row - 1, new] = weight[source - 1, old]
    return result


def grow_weight(weight: Tensor, plan: HistoryPlan, oldest: Oldest, softmax: bool, chained: bool = False) -> Tensor:
    """Return the new W, in the type of the old one.

    Args:
        weight: the old W
        plan: the change of the connections
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


def shrink_weight(weight: Tensor, plan: HistoryPlan, oldest: Oldest, softmax: bool) -> Tensor:
    """Return the new W, in the type of the old one; a row does not read outputs newly within its window.

    With `softmax`, W holds logits, and the normalised weights are added.
    """
    size = len(plan.rows)
    wide = weight.to(torch.promote_types(weight.dtype, torch.float32))
    result = wide.new_zeros(size, size, weight.size(2))
    for row, source in enumerate(plan.rows, start=1):
        assert source is not None
        old = wide[source - 1]
        for column, outputs in gathered(plan, row, oldest).items():
            if outputs and softmax:
                result[row - 1, column] = old[outputs].logsumexp(dim=0)
            elif outputs:
                result[row - 1, column] = old[outputs].sum(dim=0)
            elif softmax:
                result[row - 1, column] = old[oldest(source) : source].amax(dim=0) - UNREAD_LOGIT
    return result.to(weight.dtype)
