"""Losses of `logits = features @ weight'` some positions at a time: what their forward and backward passes share.

Shapes: N positions, C channels, V types.
"""

from collections.abc import Iterator
from typing import Optional, Union

import torch
from torch import Tensor

from deepnmt.kernels.products import SHORT_SIDE, addmm_, mm, onednn_is_faster

# Logits at a time: on the CPU few enough for a core's own cache, on a GPU many enough to fill it.
LOGITS = {"cpu": 2**20, "other": 2**26}
# On the CPU, with fewer positions at a time products are slow; of many types, that many logits are enough.
POSITIONS = 128
ENOUGH = 2**22


def pieces(positions: int, types: int, device: torch.device) -> Iterator[slice]:
    """Yield slices of the positions whose logits are computed together."""
    rows = LOGITS["cpu" if on_cpu(device) else "other"] // types
    if on_cpu(device):
        rows = max(rows, min(fewest_positions(), ENOUGH // types))
    rows = max(1, rows)
    for begin in range(0, positions, rows):
        yield slice(begin, min(begin + rows, positions))


def fewest_positions() -> int:
    """Return how many positions there should be at a time for fast products on the CPU."""
    return SHORT_SIDE if onednn_is_faster() else POSITIONS


def on_cpu(device: torch.device) -> bool:
    """Return whether Python may ask for values, for which on other devices it would have to wait."""
    return device.type == "cpu"


class ProjectionGradients:
    """The gradients of features and weight, given the gradients of the logits.

    Args:
        features: N x C
        weight: V x C
        wanted: whether each of both is requested

    Attributes:
        to_features, to_weight: the gradients, or None where not requested. After `finish` they have the type of
            features and weight, before it at least float32
    """

    def __init__(self, features: Tensor, weight: Tensor, wanted: tuple[bool, bool]) -> None:
        self.features, self.weight = features, weight
        self.exact = torch.promote_types(features.dtype, torch.float32)
        self.to_features = torch.empty_like(features, dtype=self.exact) if wanted[0] else None
        self.to_weight = torch.zeros_like(weight, dtype=self.exact) if wanted[1] else None

    def add(self, some: slice, gradient: Tensor) -> None:
        """Take the gradient of the logits of some positions, n x V; each position comes once."""
        features = self.features[some]
        gradient = gradient.to(features.dtype)
        if self.to_features is not None:
            self.to_features[some] = mm(gradient, self.weight)
        if self.to_weight is not None:
            if self.to_weight.dtype == gradient.dtype:
                addmm_(self.to_weight, gradient.t(), features)
            else:
                self.to_weight += mm(gradient.t(), features)

    def finish(self, column: Tensor, spread: Union[float, Tensor]) -> tuple[Optional[Tensor], Optional[Tensor]]:
        """Take `-spread`, a number or N x 1, as a further gradient of all logits, and return both gradients.

        The `column`, C, is the sum of the weight's rows.
        """
        if self.to_features is not None:
            self.to_features = self.to_features.sub_(spread * column).to(self.features.dtype)
        if self.to_weight is not None:
            row = (self.features.to(self.exact) * spread).sum(0)
            self.to_weight = self.to_weight.sub_(row).to(self.weight.dtype)
        return self.to_features, self.to_weight
