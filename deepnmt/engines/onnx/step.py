"""One step of the decoder as a graph.

Twin: deepnmt/model/decoder.py

    tokens, N x M           the newest of each hypothesis
    position                of these tokens, from 0
    asked, N x M            a type of each hypothesis whose log-probability is wanted in any case
    best                    how many of the best types are wanted
    mask, N x 1 x M x E     see `SelfAttentionStep`; `ages` too where there are relative positions
    parents, NM             see `MergedAttentionStep`
    source_*                outputs of the encoder's graph
    key_L, value_L, total_L what the step before put out as next_*

    ->  best_log_probs, best_types, N x M x best;  asked_log_probs, N x M;  next_*

An input that a model does not need is not there.

Shapes: N sentences of M hypotheses; E entries, the keys of a sentence's hypotheses in all steps so far; C channels; V
types. Rows are NM, all hypotheses of the first sentence first.
"""

from __future__ import annotations

from typing import Any

from deepnmt.engines.onnx.attention import MergedAttentionStep, SelfAttentionStep, SourceAttentionStep
from deepnmt.engines.onnx.encoder import inference_factors, position_table
from deepnmt.engines.onnx.graph import FLOAT, INTEGER, Graph, Value
from deepnmt.engines.onnx.history import History
from deepnmt.engines.onnx.layers import Branch, feed_forward, norm, run_layer
from deepnmt.engines.onnx.linear import linear
from deepnmt.model.merged_attention import MergedAttention
from deepnmt.model.relative_position import RelativeSelfAttention
from deepnmt.model.sublayers import CROSS_ATTENTION, FEED_FORWARD, SELF_ATTENTION


def step_graph(model: Any, activation: str, int8: bool) -> Graph:
    """Return the graph of a model's decoder.

    Args:
        model: one that `options.check` allows, in evaluation mode
        activation: --activation-fn
        int8: see `linear.py`
    """
    return _StepGraph(model.decoder, activation, int8).graph


class _StepGraph:
    def __init__(self, decoder: Any, activation: str, int8: bool) -> None:
        self.graph, self.decoder, self.activation = Graph(int8), decoder, activation
        graph, axes = self.graph, ("sentences", "hypotheses")
        self.tokens = graph.input("tokens", INTEGER, *axes)
        self.position = graph.input("position", INTEGER, 1)
        self.lead = graph.op("Shape", self.tokens)
        attentions = [attention for layer in decoder.layers for attention in (layer.self_attn, layer.encoder_attn)]
        kinds = {type(attention) for attention in attentions}
        self.mask = self.ages = self.source_mask = self.parents = None
        if any(layer.self_attn is not None for layer in decoder.layers):
            self.mask = graph.input("mask", FLOAT, "sentences", 1, "hypotheses", "entries")
        if RelativeSelfAttention in kinds:
            self.ages = graph.input("ages", INTEGER, "entries")
        if any(layer.encoder_attn is not None for layer in decoder.layers):
            self.source_mask = graph.input("source_mask", FLOAT, "sentences", 1, 1, "source")
        if MergedAttention in kinds:
            self.parents = graph.input("parents", INTEGER, "rows")
        self._outputs(self._features())

    def _features(self) -> Value:
        """Return rows NM x C."""
        graph, decoder = self.graph, self.decoder
        x, history = self._embedding(), History(graph, decoder)
        for index, (layer, factors) in enumerate(zip(decoder.layers, inference_factors(decoder))):
            x = run_layer(graph, layer, history.input(index, x), self._branches(layer, index), factors)
        x = norm(graph, decoder.layer_norm, history.finish(x))
        return x if decoder.project_out_dim is None else linear(graph, x, decoder.project_out_dim)

    def _embedding(self) -> Value:
        """Return rows NM x C."""
        graph, decoder = self.graph, self.decoder
        tokens = graph.op("Reshape", self.tokens, graph.integers(-1))
        x = graph.op("Gather", graph.weight(decoder.embed_tokens.weight), tokens)
        x = graph.op("Mul", x, graph.number(decoder.embed_scale))
        for projection in (decoder.quant_noise, decoder.project_in_dim):
            x = x if projection is None else linear(graph, x, projection)
        if decoder.embed_positions is not None:
            x = graph.op("Add", x, graph.op("Gather", position_table(graph, decoder), self.position))
        return norm(graph, decoder.layernorm_embedding, x)

    def _branches(self, layer: Any, index: int) -> dict[str, Branch]:
        """Return the functions of a layer's sublayers."""
        graph, lead = self.graph, self.lead
        branches = {FEED_FORWARD: feed_forward(graph, layer, self.activation)}
        if layer.self_attn is not None:
            assert self.mask is not None
            branches[SELF_ATTENTION] = SelfAttentionStep(graph, layer.self_attn, lead, self.mask, self.ages, index)
        if isinstance(layer.encoder_attn, MergedAttention):
            assert self.source_mask is not None
            assert self.parents is not None
            count = graph.op("Cast", graph.op("Add", self.position, graph.integers(1)), to=FLOAT)
            branches[CROSS_ATTENTION] = MergedAttentionStep(
                graph, layer.encoder_attn, lead, self.source_mask, index, self.parents, count
            )
        elif layer.encoder_attn is not None:
            assert self.source_mask is not None
            branches[CROSS_ATTENTION] = SourceAttentionStep(graph, layer.encoder_attn, lead, self.source_mask, index)
        return branches

    def _outputs(self, features: Value) -> None:
        graph, axes = self.graph, ("sentences", "hypotheses")
        asked, best = graph.input("asked", INTEGER, *axes), graph.input("best", INTEGER, 1)
        logits = linear(graph, features, self.decoder.output_projection)
        log_probs = graph.op("LogSoftmax", logits, axis=-1)
        found = graph.op("GatherElements", log_probs, graph.op("Reshape", asked, graph.integers(-1, 1)), axis=1)
        graph.output("asked_log_probs", FLOAT, graph.op("Reshape", found, self.lead), *axes)
        shape = graph.op("Concat", self.lead, graph.integers(-1), axis=0)
        for name, kind, value in zip(
            ("best_log_probs", "best_types"), (FLOAT, INTEGER), graph.op_with_outputs(2, "TopK", log_probs, best)
        ):
            graph.output(name, kind, graph.op("Reshape", value, shape), *axes, "best")
