"""The layers of both stacks, their linear maps and their history, as operations of a graph.

Twins: deepnmt/model/layers.py, deepnmt/model/dlcl.py, deepnmt/model/transparent.py

Linear maps are in float32 or by products of 8-bit numbers:

    float32     y = x A + b
    int8        y_r = s_r t * (round(x_r / s_r) round(A / t)) + b,  s_r = max |x_r| / 127,  t_o = max |A_o| / 127

Each row r of x has a scale of its own, and each column o of A. ONNX Runtime's `quantize_dynamic` has one scale for all
rows, which is a tenth faster but lets a translation depend on the rest of its batch.

Shapes: rows x C, where a row is a position of a sentence, or of a hypothesis; n outputs that a row of weights reads.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from deepnmt.engines.onnx.graph import FLOAT, OWN, Graph, Value
from deepnmt.model.dlcl import LayerHistory
from deepnmt.model.layers import DeepLayer
from deepnmt.model.norm_position import NORM_POSITIONS, NormPosition
from deepnmt.model.sublayers import FEED_FORWARD, sublayers_of
from deepnmt.model.transparent import TopSums
from deepnmt.search.incremental.maps import bias_of

Floats = npt.NDArray[np.float32]

LARGEST = 127
# The products take unsigned numbers for x: 128 stands for 0.
ZERO = np.array(128, dtype=np.uint8)
# The scale of a row of zeros.
SMALLEST = 1e-30
Branch = Callable[[Value], Value]
# --activation-fn
ACTIVATIONS: dict[str, Callable[[Graph, Value], Value]] = {
    "relu": lambda graph, x: graph.op("Relu", x),
    "gelu": lambda graph, x: graph.op("Gelu", x),
    "gelu_accurate": lambda graph, x: graph.op("Gelu", x, approximate="tanh"),
    "gelu_fast": lambda graph, x: graph.op("Gelu", x, approximate="tanh"),
    "tanh": lambda graph, x: graph.op("Tanh", x),
    "linear": lambda graph, x: x,
}


def linear(graph: Graph, x: Value, *projections: Any, scale: float = 1.0) -> Value:
    """Return the maps of rows by several `nn.Linear`, side by side; the first is multiplied by `scale`."""
    factors = [scale, *[1.0] * (len(projections) - 1)]
    weight = torch.cat([module.weight.detach() * factor for module, factor in zip(projections, factors)])
    matrix = weight.float().t().contiguous().numpy()
    y = _int8_product(graph, x, matrix) if graph.int8 else graph.op("MatMul", x, graph.constant(matrix))
    if all(module.bias is None for module in projections):
        return y
    bias = torch.cat([bias_of(module).detach() * factor for module, factor in zip(projections, factors)])
    return graph.op("Add", y, graph.weight(bias))


def _int8_product(graph: Graph, x: Value, matrix: Floats) -> Value:
    numbers, scales = graph.once("int8", x, lambda: _quantised(graph, x))
    rounded_matrix, columns = _int8_matrix(matrix)
    weight, zero = graph.constant(rounded_matrix), graph.constant(ZERO)
    # One operation for product and scales; it takes a single scale of x.
    scaled = graph.op(
        "MatMulIntegerToFloat", numbers, weight, graph.number(1.0), graph.constant(columns), zero, domain=OWN
    )
    return graph.op("Mul", scaled, graph.op("Unsqueeze", scales, graph.integers(1)))


def _int8_matrix(matrix: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Return a matrix in 8-bit numbers, and the scales of its columns."""
    columns = np.maximum(np.abs(matrix).max(0) / LARGEST, SMALLEST).astype(np.float32)
    return np.round(matrix / columns).astype(np.int8), columns


def rounded(graph: Graph, x: Value) -> Value:
    """Return the numbers that take the place of rows of x in products."""
    if not graph.int8:
        return x
    numbers, scales = graph.once("int8", x, lambda: _quantised(graph, x))
    zeros = graph.op("Expand", graph.constant(ZERO), graph.op("Shape", scales))
    return graph.op("DequantizeLinear", numbers, scales, zeros, axis=0)


def gathered(graph: Graph, projection: Any, types: Value) -> Value:
    """Return the rows of a projection's weights for types, ... x C, as products have them."""
    weight = projection.weight.detach().float()
    if not graph.int8:
        return graph.op("Gather", graph.weight(weight), types)
    numbers, scales = _int8_matrix(weight.t().contiguous().numpy())
    rows = graph.op("Gather", graph.constant(np.ascontiguousarray(numbers.T)), types)
    factors = graph.op("Gather", graph.constant(scales[:, np.newaxis]), types)
    return graph.op("Mul", graph.op("Cast", rows, to=FLOAT), factors)


def _quantised(graph: Graph, x: Value) -> tuple[Value, Value]:
    """Return the numbers of x, 128 for 0, and the scale of each row."""
    largest = graph.op("ReduceMax", graph.op("Abs", x), graph.integers(1), keepdims=0)
    scales = graph.op("Max", graph.op("Mul", largest, graph.number(1 / LARGEST)), graph.number(SMALLEST))
    zeros = graph.op("Expand", graph.constant(ZERO), graph.op("Shape", scales))
    return graph.op("QuantizeLinear", x, scales, zeros, axis=0), scales


def norm(graph: Graph, module: Any, x: Value) -> Value:
    """Return the layer norm of rows; None or nn.Identity in place of a module does nothing."""
    if module is None or isinstance(module, nn.Identity):
        return x
    return graph.op("LayerNormalization", x, graph.weight(module.weight), graph.weight(module.bias), epsilon=module.eps)


def feed_forward(graph: Graph, layer: Any, activation: str) -> Branch:
    """Return the feed-forward sublayer's function F, with an activation of `ACTIVATIONS`."""

    def function(x: Value) -> Value:
        return linear(graph, ACTIVATIONS[activation](graph, linear(graph, x, layer.fc1)), layer.fc2)

    return function


def run_layer(graph: Graph, layer: Any, x: Value, branches: dict[str, Branch], factors: Sequence[float]) -> Value:
    """Return the output of a layer, of this package or fairseq's own.

    Args:
        graph: to which operations are added
        layer: the module
        x: its input
        branches: the function F of each sublayer
        factors: of F, for each sublayer that the layer has
    """
    layer_input = x
    for name, factor in zip(sublayers_of(layer), factors):
        position, layer_norm = norm_position(layer), getattr(layer, f"{name}_layer_norm")
        y = branches[name](norm(graph, layer_norm, x) if position.before else x)
        if factor != 1.0:
            y = graph.op("Mul", y, graph.number(factor))
        x = graph.op("Add", _scaled(graph, getattr(layer, f"{name}_residual", None), x), y)
        if position.layer_input and name == FEED_FORWARD:
            x = graph.op("Add", x, layer_input)
        x = norm(graph, layer_norm, x) if position.after else x
    return x


def norm_position(layer: Any) -> NormPosition:
    """Return the positions of a layer's norms."""
    if isinstance(layer, DeepLayer):
        return layer.norm_position
    return NORM_POSITIONS["pre" if layer.normalize_before else "post"]


def _scaled(graph: Graph, residual: Any, x: Value) -> Value:
    if residual is None:
        return x
    if residual.weight is not None:
        return graph.op("Mul", x, graph.weight(residual.weight))
    return x if residual.scale == 1.0 else graph.op("Mul", x, graph.number(residual.scale))


class History:
    """The input of a layer: (5) or (6), or in a plain stack the output of the previous layer."""

    def __init__(self, graph: Graph, stack: Any) -> None:
        self.graph = graph
        history: LayerHistory | TopSums | None = getattr(stack, "history", None)
        self.history = history if isinstance(history, LayerHistory) else None
        self.top = history if isinstance(history, TopSums) else None
        self.group = 0
        self.outputs: list[Value] = []

    def input(self, index: int, x: Value) -> Value:
        """Return the input of layer `index`, from 0, where `x` is the previous output, or the embedding."""
        if self.top is not None:
            self.outputs.append(self.graph.op("Unsqueeze", x, self.graph.integers(0)))
        if self.history is None or self.history.group_of[index] == self.group:
            return x
        return self._next(self.history, self.history.group_of[index], x)

    def finish(self, x: Value) -> list[Value]:
        """Return the output of the stack, or each of its sums, where `x` is the output of the last layer."""
        if self.top is not None:
            return self._sums(self.top, x)
        return [x if self.history is None else self._next(self.history, len(self.history.layer_norms) + 1, x)]

    def _next(self, history: LayerHistory, row: int, x: Value) -> Value:
        layer_norm = history.norm(row - 1)  # of the newest output, or of the sum
        output = norm(self.graph, layer_norm, x) if history.normalize_before else x
        self.outputs.append(self.graph.op("Unsqueeze", output, self.graph.integers(0)))
        self.group = row
        total = self._total(history.row(row).detach(), self.outputs[history.oldest(row) : row], x)
        return total if history.normalize_before else norm(self.graph, layer_norm, total)

    def _sums(self, top: TopSums, x: Value) -> list[Value]:
        graph, together = self.graph, [*self.outputs, self.graph.op("Unsqueeze", x, self.graph.integers(0))]
        flat = graph.op("Reshape", graph.op("Concat", *together, axis=0), graph.integers(len(together), -1))
        weights = np.ascontiguousarray(top.matrix().detach().float().t().numpy())  # R x (L + 1)
        sums = graph.op("MatMul", graph.constant(weights), flat)
        rows = (graph.op("Gather", sums, graph.integers(row)) for row in range(len(weights)))
        return [graph.op("Reshape", row, graph.op("Shape", x)) for row in rows]

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
