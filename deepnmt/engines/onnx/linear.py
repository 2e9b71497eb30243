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
import numpy.typing as npt
import torch

from deepnmt.engines.onnx.graph import OWN, Graph, Value

Floats = npt.NDArray[np.float32]

LARGEST = 127
# The products take numbers without a sign for x: 128 stands for 0.
ZERO = np.array(128, dtype=np.uint8)
# The scale of a row of zeros.
SMALLEST = 1e-30


def linear(graph: Graph, x: Value, *projections: Any, scale: float = 1.0) -> Value:
    """Return the maps of rows by several `nn.Linear`, side by side, that of the first multiplied by `scale`."""
    factors = [scale, *[1.0] * (len(projections) - 1)]
    weight = torch.cat([module.weight.detach() * factor for module, factor in zip(projections, factors)])
    matrix = weight.float().t().contiguous().numpy()
    y = _int8_product(graph, x, matrix) if graph.int8 else graph.op("MatMul", x, graph.constant(matrix))
    if projections[0].bias is None:
        return y
    bias = torch.cat([module.bias.detach() * factor for module, factor in zip(projections, factors)])
    return graph.op("Add", y, graph.weight(bias))


def _int8_product(graph: Graph, x: Value, matrix: Floats) -> Value:
    numbers, scales = graph.once("int8", x, lambda: _quantised(graph, x))
    columns = np.maximum(np.abs(matrix).max(0) / LARGEST, SMALLEST).astype(np.float32)
    weight, zero = graph.constant(np.round(matrix / columns).astype(np.int8)), graph.constant(ZERO)
    # One operation for product and scales; of x, it takes a single scale.
    scaled = graph.op(
        "MatMulIntegerToFloat", numbers, weight, graph.number(1.0), graph.constant(columns), zero, domain=OWN
    )
    return graph.op("Mul", scaled, graph.op("Unsqueeze", scales, graph.integers(1)))


def _quantised(graph: Graph, x: Value) -> tuple[Value, Value]:
    """Return the numbers of x, 128 for 0, and the scale of each row."""
    largest = graph.op("ReduceMax", graph.op("Abs", x), graph.integers(1), keepdims=0)
    scales = graph.op("Max", graph.op("Mul", largest, graph.number(1 / LARGEST)), graph.number(SMALLEST))
    zeros = graph.op("Expand", graph.constant(ZERO), graph.op("Shape", scales))
    return graph.op("QuantizeLinear", x, scales, zeros, axis=0), scales
