"""Linear maps in float32 and in 8-bit numbers, against formulas in float64."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from torch import nn

from deepnmt.engines.onnx.engine import session
from deepnmt.engines.onnx.graph import FLOAT, INTEGER, Graph
from deepnmt.engines.onnx.layers import gathered, linear, rounded


def computed(projection: nn.Linear, x: np.ndarray, int8: bool, scale: float = 1.0) -> np.ndarray:
    graph = Graph(int8)
    value = graph.input("x", FLOAT, "rows", x.shape[1])
    graph.output("y", FLOAT, linear(graph, value, projection, scale=scale), "rows", projection.out_features)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph.onnx"
        path.write_bytes(graph.model({}).SerializeToString())
        # The engine's, as the options of a session decide how sums of int8 are rounded.
        found: np.ndarray = session(path, threads=1).run(["y"], {"x": x})[0]
    return found


@pytest.fixture
def x() -> np.ndarray:
    generator = np.random.default_rng(1)
    rows = generator.standard_normal((6, 40)) * np.array([[1], [30], [0.01], [0], [1], [2]])
    return rows.astype(np.float32)


@pytest.mark.parametrize("bias", [True, False])
def test_float32(bias: bool, x: np.ndarray) -> None:
    projection = nn.Linear(40, 7, bias=bias)
    weight = projection.weight.detach().double().numpy()
    expected = x.astype(np.float64) @ weight.T + (projection.bias.detach().double().numpy() if bias else 0)
    np.testing.assert_allclose(computed(projection, x, False, 0.25), expected / 4, rtol=1e-5, atol=1e-5)


def test_int8(x: np.ndarray) -> None:
    torch.manual_seed(1)
    projection = nn.Linear(40, 7)
    weight = projection.weight.detach().numpy().T
    columns, rows = np.abs(weight).max(0) / 127, np.abs(x).max(1, keepdims=True) / 127
    rows[3] = 1  # zeros
    expected = np.rint(x / rows) @ np.rint(weight / columns) * rows * columns + projection.bias.detach().numpy()
    found = computed(projection, x, True)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    exact = x @ weight + projection.bias.detach().numpy()
    assert np.abs(found - exact).max(1)[[0, 4]].max() < 0.05, "8 bits are enough for this"


def test_rows_in_int8_do_not_know_each_other(x: np.ndarray) -> None:
    projection = nn.Linear(40, 7)
    together = computed(projection, x, True)
    for number, row in enumerate(x):
        np.testing.assert_array_equal(computed(projection, row[np.newaxis], True)[0], together[number])


@pytest.mark.parametrize("int8", [False, True])
def test_products_with_the_weights_of_some_types(int8: bool, x: np.ndarray) -> None:
    torch.manual_seed(1)
    projection = nn.Linear(40, 7, bias=False)
    types, graph = np.array([[5, 0, 5], [6, 1, 2]]), Graph(int8)
    value, wanted = graph.input("x", FLOAT, "rows", 40), graph.input("types", INTEGER, 2, 3)
    weights = graph.op("Transpose", gathered(graph, projection, wanted), perm=[0, 2, 1])
    graph.output("y", FLOAT, graph.op("MatMul", rounded(graph, value), weights), 2, "rows", 3)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "graph.onnx"
        path.write_bytes(graph.model({}).SerializeToString())
        found = session(path, threads=1).run(["y"], {"x": x, "types": types})[0]
    weight, rows = projection.weight.detach().double().numpy(), x.astype(np.float64)
    if int8:
        columns, scales = np.abs(weight).max(1, keepdims=True) / 127, np.abs(rows).max(1, keepdims=True) / 127
        scales[3] = 1  # zeros
        weight, rows = np.rint(weight / columns) * columns, np.rint(rows / scales) * scales
    for number, chosen in enumerate(types):
        np.testing.assert_allclose(found[number], rows @ weight[chosen].T, rtol=1e-4, atol=1e-5)
