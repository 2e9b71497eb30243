"""The history of a decoder that is run position by position.

Twin: deepnmt/model/dlcl.py

Shapes: N sentences of M hypotheses, rows MN, hypothesis-major; C channels; R rows of weights, each for n outputs;
S slices.
"""

import torch
from torch import Tensor

from deepnmt.model.dlcl import LayerHistory
from deepnmt.search.incremental.layer_steps import norm_function


class HistorySteps:
    """The sums of (5) and (6), where a position's outputs are few and nothing is kept for gradients."""

    def __init__(self, history: LayerHistory) -> None:
        self.group_of = history.group_of
        self.rows = len(history.layer_norms) + 1
        self.oldest = [history.oldest(row) for row in range(1, self.rows + 1)]
        matrix = history.matrix()  # R x R x S
        self.weights = [matrix[row, oldest : row + 1] for row, oldest in enumerate(self.oldest)]  # n x S each
        self.pre_norm = history.normalize_before
        self.norms = [norm_function(history.norm(group)) for group in range(self.rows)]
        self.group = 0

    def start(self, x: Tensor) -> None:
        """Start with a position's embedding, MN x C."""
        self.group = 0
        self.outputs = x.new_empty(self.rows, *x.shape)

    def input(self, index: int, x: Tensor) -> Tensor:
        """Return the input, MN x C, of layer `index` (from 0), where `x` is the previous output, or the embedding."""
        group = self.group_of[index]
        return x if group == self.group else self._next(group, x)

    def finish(self, x: Tensor) -> Tensor:
        """Return the output of the stack, where `x` is the output of the last layer."""
        return self._next(self.rows, x)

    def _next(self, row: int, x: Tensor) -> Tensor:
        norm = self.norms[row - 1]  # of the newest output, or of the sum
        self.outputs.select(0, row - 1).copy_(norm(x) if norm is not None and self.pre_norm else x)
        self.group = row
        oldest, weight = self.oldest[row - 1], self.weights[row - 1]
        outputs = self.outputs.narrow(0, oldest, row - oldest)
        if weight.size(-1) == 1:
            total = torch.mm(weight.t(), outputs.flatten(1)).view_as(x)
        else:
            total = (outputs * weight.unsqueeze(1)).sum(0)
        return total if norm is None or self.pre_norm else norm(total)
