"""`--pair-weights` and `--set-weights` in the loss of an update (55), beside each criterion that knows its positions.

Criterions that take weights multiply by them in blocks of positions. Others give the loss of each position.

Shapes: B pairs, T target positions.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from deepnmt.criterions.fused import FusedLabelSmoothedCrossEntropy
from deepnmt.data.weighted_pairs import PAIRS, TOKENS, WEIGHTS

# Loss, sample size and log of a batch.
Result = tuple[Any, Any, dict[str, Any]]


def weighted(criterion: Any) -> Callable[[Any, dict[str, Any]], Result]:
    """Return a criterion whose loss and sample size have the weights of a batch's pairs."""

    def with_weights(model: Any, sample: dict[str, Any]) -> Result:
        if isinstance(criterion, FusedLabelSmoothedCrossEntropy) and criterion.takes_weights(model):
            result: Result = criterion(model, sample)
            return result
        losses, _, log = criterion(model, sample, reduce=False)  # B T, or B T x 1
        weights = sample[WEIGHTS].to(losses)
        loss = weights @ losses.reshape(len(weights), -1).sum(1)
        size = sample[PAIRS if criterion.sentence_avg else TOKENS]
        sums = {name: each.sum() for name, each in log.items() if isinstance(each, Tensor)}
        return loss, size, {**log, **sums, "loss": loss.detach(), "sample_size": size}

    return with_weights
