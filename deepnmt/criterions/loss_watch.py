"""The loss of each pair of a batch in training, beside any criterion and any model.

A hook on the model takes the predictions that the criterion gets, and computes the negative log-probability per target
token. Where the criterion itself projects the features, the hook projects them once more, without a gradient.

Shapes: B pairs, T target positions; criterions with several passes put the batch's own pairs first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils
from torch import Tensor

from deepnmt.criterions.minimum_risk import unwrapped
from deepnmt.kernels.linear_log_probs import linear_log_probs


@contextmanager
def watched(model: Any, sample: dict[str, Any], pad: int) -> Iterator[list[Tensor]]:
    """Within the context, a training step gives the losses of its pairs: afterwards the list has them, B.

    Args:
        model: fairseq's or this package's, wrapped for distributed training or not
        sample: the batch
        pad: the index of padding
    """
    found: list[Tensor] = []
    inner = unwrapped(model)

    def see(module: Any, inputs: Any, options: dict[str, Any], output: Any) -> None:
        if not found and module.training:
            found.append(pair_losses(module, output, bool(options.get("features_only")), sample, pad).float().cpu())

    handle = inner.register_forward_hook(see, with_kwargs=True)
    try:
        yield found
    finally:
        handle.remove()


@torch.no_grad()
def pair_losses(model: Any, output: Any, features_only: bool, sample: dict[str, Any], pad: int) -> Tensor:
    """Return the negative log-probability of each pair's target, per token, B; `output` is the model's."""
    target = sample["target"]
    rows, columns = target.shape
    counted = target.ne(pad)
    scores = output[0][:rows, :columns]
    if features_only:
        weight = model.decoder.output_projection.weight
        log_probs = linear_log_probs(scores[counted], weight, target[counted])
    else:
        normalised = model.get_normalized_probs((scores, *output[1:]), log_probs=True, sample=sample)
        log_probs = normalised.view(rows, columns, -1)[counted].gather(1, target[counted][:, None]).squeeze(1)
    sums = log_probs.new_zeros(rows).index_add(0, counted.nonzero()[:, 0], -log_probs)
    means: Tensor = sums / counted.sum(1)
    return means


def gathered(seen: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return numbers and losses of an update's pairs in all processes; `seen` has this one's, batch by batch."""
    parts = [seen]
    if (processes := distributed_utils.get_data_parallel_world_size()) > 1:
        parts = [seen] * processes
        torch.distributed.all_gather_object(parts, seen, group=distributed_utils.get_data_parallel_group())
    numbers, losses = zip(*(each for part in parts for each in part))
    return torch.cat(numbers), torch.cat(losses)
