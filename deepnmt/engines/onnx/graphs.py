"""The two graphs of a model: the encoder, and one step of the decoder.

Twins: deepnmt/model/encoder.py, deepnmt/model/decoder.py

The encoder also returns the keys and values that the decoder's layers make from its output:

    tokens, N x S           of the sources, padded on the right

    ->  source_mask, N x 1 x 1 x S;  source_key_L, source_value_L of each layer L with cross-attention

A step:

    tokens, N x M           the newest of each hypothesis
    position                of these tokens, from 0
    asked, N x M            a type of each hypothesis whose log-probability is always returned
    best                    number of best types to return
    mask, N x 1 x M x E     see `SelfAttentionStep`; `ages` too where there are relative positions
    parents, NM             see `MergedAttentionStep`, `RecurrentStep`
    source_*                outputs of the encoder's graph
    key_L, value_L, total_L, mean_L    next_* of the step before

    ->  best_log_probs, best_types, N x M x best;  asked_log_probs, N x M;  next_*

Inputs that a model does not need are left out. With shortlists (`deepnmt/search/shortlist.py`), a step computes D
common types and P further ones of each sentence:

    further, N x P          another input of the encoder: these types; or 1 x P for all sentences
    ->  further_weights, N x C x P

    further_weights, and unused, N x 1 x P: -inf in unused places, else 0     further inputs of a step

Types are then the numbers of the D + P columns.

Shapes: N sentences of S tokens and M hypotheses; C channels; V types. E entries are the keys of a sentence's hypotheses
in all steps so far. Rows are NS or NM, all positions or hypotheses of the first sentence first.
"""

from argparse import Namespace
from typing import Any, Optional

import numpy as np

from deepnmt.engines.onnx.attention import (
    EncoderAttention,
    MergedAttentionStep,
    SelfAttentionStep,
    SourceAttentionStep,
    source_entries,
)
from deepnmt.engines.onnx.graph import FLOAT, INTEGER, Graph, Value
from deepnmt.engines.onnx.layers import Branch, History, feed_forward, gathered, linear, norm, rounded, run_layer
from deepnmt.engines.onnx.recurrent import RECURRENT_STEPS
from deepnmt.engines.onnx.shared import FollowingSelfAttentionStep, following_source_attention
from deepnmt.model.merged_attention import MergedAttention
from deepnmt.model.relative_position import RelativeSelfAttention
from deepnmt.model.skipping import SublayerSkipping
from deepnmt.model.sublayers import CROSS_ATTENTION, FEED_FORWARD, SELF_ATTENTION
from deepnmt.search.shortlist import Integers

Common = Optional[Integers]


def encoder_graph(model: Any, activation: str, int8: bool, common: Common = None) -> Graph:
    """Return the graph of a model's encoder.

    Args:
        model: one that `options.check` allows, in evaluation mode
        activation: --activation-fn
        int8: see `layers.py`
        common: with shortlists, the D common types
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
    outputs = [norm(graph, encoder.layer_norm, each) for each in history.finish(x)]
    for index, layer in enumerate(model.decoder.layers):
        if layer.encoder_attn is not None and not follows(layer.encoder_attn):
            source_entries(graph, layer.encoder_attn, outputs[index % len(outputs)], lead, index)
    if common is not None:
        further = graph.input("further", INTEGER, "lists", "places")
        rows = gathered(graph, model.decoder.output_projection, further)
        columns = graph.op("Transpose", rows, perm=[0, 2, 1])
        graph.output("further_weights", FLOAT, columns, "lists", model.decoder.output_embed_dim, "places")
    return graph


def follows(attention: Any) -> bool:
    """Return whether an attention has another one's weights; see `deepnmt/model/shared_attention.py`."""
    return bool(getattr(attention, "follows", False))


def inference_factors(stack: Any) -> list[tuple[float, ...]]:
    """Return the multipliers of each layer's sublayer functions; see `deepnmt/model/skipping.py`."""
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


def step_graph(model: Any, activation: str, int8: bool, common: Common = None) -> Graph:
    """Return the graph of a step of a model's decoder; see `encoder_graph`."""
    return _StepGraph(model.decoder, activation, int8, common).graph


class _StepGraph:
    def __init__(self, decoder: Any, activation: str, int8: bool, common: Common) -> None:
        self.graph, self.decoder, self.activation, self.common = Graph(int8), decoder, activation, common
        # The latest attentions of layers that others follow.
        self.leaders: dict[str, Any] = {}
        graph, axes = self.graph, ("sentences", "hypotheses")
        self.tokens = graph.input("tokens", INTEGER, *axes)
        self.position = graph.input("position", INTEGER, 1)
        self.lead = graph.op("Shape", self.tokens)
        attentions = [attention for layer in decoder.layers for attention in (layer.self_attn, layer.encoder_attn)]
        kinds = {type(attention) for attention in attentions}
        self.mask = self.ages = self.source_mask = self.parents = None
        if any(type(layer.self_attn) not in (type(None), *RECURRENT_STEPS) for layer in decoder.layers):
            self.mask = graph.input("mask", FLOAT, "sentences", 1, "hypotheses", "entries")
        if RelativeSelfAttention in kinds:
            self.ages = graph.input("ages", INTEGER, "entries")
        if any(layer.encoder_attn is not None for layer in decoder.layers):
            self.source_mask = graph.input("source_mask", FLOAT, "sentences", 1, 1, "source")
        if kinds & {MergedAttention, *RECURRENT_STEPS}:
            self.parents = graph.input("parents", INTEGER, "rows")
        self._outputs(self._features())

    def _features(self) -> Value:
        """Return rows NM x C."""
        graph, decoder = self.graph, self.decoder
        x, history = self._embedding(), History(graph, decoder)
        for index, (layer, factors) in enumerate(zip(decoder.layers, inference_factors(decoder))):
            x = run_layer(graph, layer, history.input(index, x), self._branches(layer, index), factors)
        x = norm(graph, decoder.layer_norm, *history.finish(x))
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
        if type(layer.self_attn) in RECURRENT_STEPS:
            assert self.parents is not None
            step = RECURRENT_STEPS[type(layer.self_attn)]
            branches[SELF_ATTENTION] = step(graph, layer.self_attn, index, self.parents, self._count())
        elif follows(layer.self_attn):
            leader = self.leaders[SELF_ATTENTION]
            branches[SELF_ATTENTION] = FollowingSelfAttentionStep(graph, layer.self_attn, lead, index, leader)
        elif layer.self_attn is not None:
            assert self.mask is not None
            leader = SelfAttentionStep(graph, layer.self_attn, lead, self.mask, self.ages, index)
            branches[SELF_ATTENTION] = self.leaders[SELF_ATTENTION] = leader
        if isinstance(layer.encoder_attn, MergedAttention):
            assert self.source_mask is not None
            assert self.parents is not None
            branches[CROSS_ATTENTION] = MergedAttentionStep(
                graph, layer.encoder_attn, lead, self.source_mask, index, self.parents, self._count()
            )
        elif follows(layer.encoder_attn):
            leader = self.leaders[CROSS_ATTENTION]
            branches[CROSS_ATTENTION] = following_source_attention(graph, layer.encoder_attn, leader)
        elif layer.encoder_attn is not None:
            assert self.source_mask is not None
            leader = SourceAttentionStep(graph, layer.encoder_attn, lead, self.source_mask, index)
            branches[CROSS_ATTENTION] = self.leaders[CROSS_ATTENTION] = leader
        return branches

    def _count(self) -> Value:
        """Return the number of positions so far, as float."""
        graph = self.graph
        return graph.op("Cast", graph.op("Add", self.position, graph.integers(1)), to=FLOAT)

    def _outputs(self, features: Value) -> None:
        graph, axes = self.graph, ("sentences", "hypotheses")
        asked, best = graph.input("asked", INTEGER, *axes), graph.input("best", INTEGER, 1)
        logits = self._logits(features)
        log_probs = graph.op("LogSoftmax", logits, axis=-1)
        found = graph.op("GatherElements", log_probs, graph.op("Reshape", asked, graph.integers(-1, 1)), axis=1)
        graph.output("asked_log_probs", FLOAT, graph.op("Reshape", found, self.lead), *axes)
        shape = graph.op("Concat", self.lead, graph.integers(-1), axis=0)
        for name, kind, value in zip(
            ("best_log_probs", "best_types"), (FLOAT, INTEGER), graph.op_with_outputs(2, "TopK", log_probs, best)
        ):
            graph.output(name, kind, graph.op("Reshape", value, shape), *axes, "best")

    def _logits(self, features: Value) -> Value:
        """Return rows NM x V, with shortlists NM x (D + P)."""
        graph, projection = self.graph, self.decoder.output_projection
        if self.common is None:
            return linear(graph, features, projection)
        common = linear(graph, features, Namespace(weight=projection.weight[self.common], bias=None))
        width = projection.in_features
        weights = graph.input("further_weights", FLOAT, "lists", width, "places")
        unused = graph.input("unused", FLOAT, "sentences", 1, "places")
        shape = graph.op("Concat", self.lead, graph.integers(-1), axis=0)
        by_sentence = graph.op("Reshape", rounded(graph, features), shape)
        further = graph.op("Add", graph.op("MatMul", by_sentence, weights), unused)
        rows = graph.op("Shape", common, start=0, end=1)
        places = graph.op("Shape", unused, start=2)
        # There is no further type if all are common.
        further = graph.op("Reshape", further, graph.op("Concat", rows, places, axis=0), allowzero=1)
        return graph.op("Concat", common, further, axis=1)
