"""The encoder as a graph, with the keys and values that the decoder's layers make of its output.

Twin: deepnmt/model/encoder.py

    tokens, N x S  ->  source_mask, N x 1 x 1 x S;  source_key_L, source_value_L of each layer L with cross-attention

Shapes: N sentences of S tokens, padded on the right; C channels. Rows are NS, all positions of the first sentence
first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from deepnmt.engines.onnx.attention import EncoderAttention, source_entries
from deepnmt.engines.onnx.graph import FLOAT, INTEGER, Graph, Value
from deepnmt.engines.onnx.history import History
from deepnmt.engines.onnx.layers import Branch, feed_forward, norm, run_layer
from deepnmt.engines.onnx.linear import linear
from deepnmt.model.skipping import SublayerSkipping
from deepnmt.model.sublayers import FEED_FORWARD, SELF_ATTENTION


def encoder_graph(model: Any, activation: str, int8: bool) -> Graph:
    """Return the graph of a model's encoder.

    Args:
        model: one that `options.check` allows, in evaluation mode
        activation: --activation-fn
        int8: see `linear.py`
    """
    graph, encoder = Graph(int8), model.encoder
    tokens = graph.input("tokens", INTEGER, "sentences", "source")
    lead = graph.op("Shape", tokens)
    padding = graph.op("Equal", tokens, graph.integers(encoder.padding_idx))
    hidden = graph.op("Where", padding, graph.number(-np.inf), graph.number(0.0))
    mask = graph.op("Unsqueeze", hidden, graph.integers(1, 2))
    graph.output("source_mask", FLOAT, mask, "sentences", 1, 1, "source")
    x = _embedding(graph, encoder, tokens, lead, padding)
    history = History(graph, encoder)
    for index, (layer, factors) in enumerate(zip(encoder.layers, inference_factors(encoder))):
        branches: dict[str, Branch] = {
            SELF_ATTENTION: EncoderAttention(graph, layer.self_attn, lead, mask),
            FEED_FORWARD: feed_forward(graph, layer, activation),
        }
        x = run_layer(graph, layer, history.input(index, x), branches, factors)
    x = norm(graph, encoder.layer_norm, history.finish(x))
    for index, layer in enumerate(model.decoder.layers):
        if layer.encoder_attn is not None:
            source_entries(graph, layer.encoder_attn, x, lead, index)
    return graph


def inference_factors(stack: Any) -> list[tuple[float, ...]]:
    """Return what the sublayers' functions of each layer are multiplied by; see `deepnmt/model/skipping.py`."""
    skipping: SublayerSkipping | None = getattr(stack, "skipping", None)
    return [(1.0, 1.0, 1.0)] * len(stack.layers) if skipping is None else skipping.draw()


def position_table(graph: Graph, stack: Any) -> Value:
    """Return the embeddings of all positions, from the first one on; see fairseq's `PositionalEmbedding`."""
    module = stack.embed_positions
    table = module.weight if hasattr(module, "weight") else module.weights
    return graph.weight(table[stack.padding_idx + 1 :])


def _embedding(graph: Graph, encoder: Any, tokens: Value, lead: Value, padding: Value) -> Value:
    """Return rows NS x C."""
    x = graph.op("Gather", graph.weight(encoder.embed_tokens.weight), tokens)
    x = graph.op("Mul", x, graph.number(encoder.embed_scale))
    if encoder.embed_positions is not None:
        length = graph.op("Slice", lead, graph.integers(1), graph.integers(2))
        x = graph.op("Add", x, graph.op("Slice", position_table(graph, encoder), graph.integers(0), length))
    x = norm(graph, encoder.layernorm_embedding, x)
    if encoder.quant_noise is not None:
        x = linear(graph, x, encoder.quant_noise)
    present = graph.op("Unsqueeze", graph.op("Cast", graph.op("Not", padding), to=FLOAT), graph.integers(2))
    return graph.op("Reshape", graph.op("Mul", x, present), graph.integers(-1, encoder.embed_tokens.embedding_dim))
