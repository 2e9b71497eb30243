"""The layers of both stacks as operations of a graph.

Twin: deepnmt/model/layers.py

Shapes: rows x C, where a row is a position of a sentence, or of a hypothesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from torch import nn

from deepnmt.engines.onnx.graph import Graph, Value
from deepnmt.engines.onnx.linear import linear
from deepnmt.model.layers import DeepLayer
from deepnmt.model.norm_position import NORM_POSITIONS, NormPosition
from deepnmt.model.sublayers import FEED_FORWARD, sublayers_of

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


def norm(graph: Graph, module: Any, x: Value) -> Value:
    """Return the layer norm of rows; a module that is None or nn.Identity does nothing."""
    if module is None or isinstance(module, nn.Identity):
        return x
    return graph.op("LayerNormalization", x, graph.weight(module.weight), graph.weight(module.bias), epsilon=module.eps)


def feed_forward(graph: Graph, layer: Any, activation: str) -> Branch:
    """Return the feed-forward sublayer's function F, with an activation of `ACTIVATIONS`."""

    def function(x: Value) -> Value:
        return linear(graph, ACTIVATIONS[activation](graph, linear(graph, x, layer.fc1)), layer.fc2)

    return function


def run_layer(graph: Graph, layer: Any, x: Value, branches: dict[str, Branch], factors: Sequence[float]) -> Value:
    """Return the output of a layer.

    Args:
        graph: to which operations are added
        layer: of this package or fairseq's own
        x: its input
        branches: the function F of each sublayer
        factors: what F is multiplied by, for each sublayer that the layer has
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
    """Return where a layer's norms stand."""
    if isinstance(layer, DeepLayer):
        return layer.norm_position
    return NORM_POSITIONS["pre" if layer.normalize_before else "post"]


def _scaled(graph: Graph, residual: Any, x: Value) -> Value:
    if residual is None:
        return x
    if residual.weight is not None:
        return graph.op("Mul", x, graph.weight(residual.weight))
    return x if residual.scale == 1.0 else graph.op("Mul", x, graph.number(residual.scale))
