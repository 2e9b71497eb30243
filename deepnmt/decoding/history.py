"""The history of a decoder that is run position by position (`deepnmt/history.py`).

Shapes: N sentences of M hypotheses; C channels; R rows; S slices.
"""

from __future__ import annotations

import torch
from torch import Tensor

from deepnmt.decoding.layer import norm_function
from deepnmt.history import LayerHistory


class HistorySteps:
    """The sums of (5) and (6), where a position's outputs are few and nothing is kept for gradients.

    Args:
        history: the model's
    """

    def __init__(self, history: LayerHistory) -> None:
        self.group_of = history.group_of
        self.oldest = [history.oldest(row) for row in range(len(history.layer_norms) + 2)]
        self.weight = history.matrix()  # R x R x S
        self.pre_norm = history.normalize_before
        self.norms = [norm_function(history.norm(group)) for group in range(len(history.layer_norms) + 1)]
        self.group = 0

    def start(self, x: Tensor) -> None:
        """Begin with a position, whose embedding is NM x C."""
        self.group = 0
        self.weight = self.weight.to(x)
        self.outputs = x.new_empty(len(self.weight), *x.shape)

    def input(self, index: int, x: Tensor) -> Tensor:
        """What layer `index` (from 0) reads, where `x` is the output of the layer before, or the embedding: NM x C."""
        group = self.group_of[index]
        return x if group == self.group else self._next(group, x)

    def finish(self, x: Tensor) -> Tensor:
        """The output of the stack, where `x` is the output of the last layer."""
        return self._next(len(self.weight), x)

    def _next(self, row: int, x: Tensor) -> Tensor:
        norm = self.norms[row - 1]  # of the newest output, or of the sum
        self.outputs[row - 1] = norm(x) if norm is not None and self.pre_norm else x
        self.group = row
        read = slice(self.oldest[row], row)
        weight, outputs = self.weight[row - 1, read], self.outputs[read]
        if weight.size(-1) == 1:
            total = torch.mm(weight.t(), outputs.flatten(1)).view_as(x)
        else:
            total = (outputs * weight.unsqueeze(1)).sum(0)
        return total if norm is None or self.pre_norm else norm(total)
