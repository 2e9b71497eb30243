"""Linear maps as operations of a graph, in float32 or by products of 8-bit numbers.

    float32     y = x A + b
    int8        y_r = s_r t * (round(x_r / s_r) round(A / t)) + b,  s_r = max |x_r| / 127,  t_o = max |A_o| / 127

Each row r of x has a scale of its own, and each column o of A. ONNX Runtime's `quantize_dynamic` has one scale for all
rows, which is a tenth faster but lets a translation depend on what else is in its batch.

Shapes: rows x C.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from deepnmt.export.onnx_graph import FLOAT, Graph, Value

LARGEST = 127
# The products take numbers without a sign for x: 128 stands for 0.
ZERO = 128
# The scale of a row of zeros.
SMALLEST = 1e-30


def linear(graph: Graph, projection: Any, x: Value, scale: float = 1.0) -> Value:
    """Return the map of rows by a `nn.Linear`, multiplied by `scale`."""
    if graph.int8:
        y = _int8_product(graph, x, projection.weight * scale)
    else:
        y = graph.op("MatMul", x, graph.weight(projection.weight, scale, transposed=True))
    return y if projection.bias is None else graph.op("Add", y, graph.weight(projection.bias, scale))


def _int8_product(graph: Graph, x: Value, weight: Tensor) -> Value:
    numbers, scales = graph.once("int8", x, lambda: _quantised(graph, x))
    matrix = weight.detach().float().t().contiguous().numpy()
    columns = np.maximum(np.abs(matrix).max(0) / LARGEST, SMALLEST).astype(np.float32)
    zero = graph.constant(np.array(ZERO, dtype=np.uint8))
    product = graph.op("MatMulInteger", numbers, graph.constant(np.round(matrix / columns).astype(np.int8)), zero)
    scaled = graph.op("Mul", graph.op("Cast", product, to=FLOAT), graph.constant(columns))
    return graph.op("Mul", scaled, graph.op("Unsqueeze", scales, graph.integers(1)))


def _quantised(graph: Graph, x: Value) -> tuple[Value, Value]:
    """Return the numbers of x, 128 for 0, and the scale of each row."""
    largest = graph.op("ReduceMax", graph.op("Abs", x), graph.integers(1), keepdims=0)
    scales = graph.op("Max", graph.op("Mul", largest, graph.number(1 / LARGEST)), graph.number(SMALLEST))
    zeros = graph.op("Expand", graph.constant(np.array(ZERO, dtype=np.uint8)), graph.op("Shape", scales))
    return graph.op("QuantizeLinear", x, scales, zeros, axis=0), scales
