"""The history between the layers of a stack as operations of a graph.

Twin: deepnmt/model/dlcl.py

Shapes: rows x C; n outputs that a row of weights reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from deepnmt.engines.onnx.graph import Graph, Value
from deepnmt.engines.onnx.layers import norm
from deepnmt.model.dlcl import LayerHistory


class History:
    """What a layer reads: (5) or (6), or in a plain stack the output of the layer before it.

    Args:
        graph: to which operations are added
        stack: of this package or fairseq's own
    """

    def __init__(self, graph: Graph, stack: Any) -> None:
        self.graph = graph
        self.history: LayerHistory | None = getattr(stack, "history", None)
        self.group = 0
        self.outputs: list[Value] = []

    def input(self, index: int, x: Value) -> Value:
        """Return the input of layer `index`, from 0, where `x` is the previous output, or the embedding."""
        if self.history is None or self.history.group_of[index] == self.group:
            return x
        return self._next(self.history, self.history.group_of[index], x)

    def finish(self, x: Value) -> Value:
        """Return the output of the stack, where `x` is the output of the last layer."""
        return x if self.history is None else self._next(self.history, len(self.history.layer_norms) + 1, x)

    def _next(self, history: LayerHistory, row: int, x: Value) -> Value:
        layer_norm = history.norm(row - 1)  # of the newest output, or of the sum
        output = norm(self.graph, layer_norm, x) if history.normalize_before else x
        self.outputs.append(self.graph.op("Unsqueeze", output, self.graph.integers(0)))
        self.group = row
        total = self._total(history.row(row).detach(), self.outputs[history.oldest(row) : row], x)
        return total if history.normalize_before else norm(self.graph, layer_norm, total)

    def _total(self, weights: Tensor, outputs: list[Value], like: Value) -> Value:
        """Return the sum of outputs, 1 x rows x C each, by weights, n x 1 or n x C."""
        graph = self.graph
        together = graph.op("Concat", *outputs, axis=0)
        if weights.size(1) > 1:
            product = graph.op("Mul", together, graph.constant(weights.unsqueeze(1).float().numpy()))
            return graph.op("ReduceSum", product, graph.integers(0), keepdims=0)
        # The outputs are on the first axis: as a product over the last one, a search would take four times as long.
        flat = graph.op("Reshape", together, graph.integers(len(outputs), -1))
        total = graph.op("MatMul", graph.constant(np.ascontiguousarray(weights.float().t().numpy())), flat)
        return graph.op("Reshape", total, graph.op("Shape", like))
