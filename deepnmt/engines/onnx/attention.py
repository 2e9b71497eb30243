"""Attention as operations of a graph: in the encoder, and in one step of the decoder.

Twins: deepnmt/model/attention.py, deepnmt/model/relative_position.py, deepnmt/model/merged_attention.py

As in the package's search, a sentence's hypotheses share the entries of the steps so far. A mask marks the entries from
which each hypothesis descends.

Shapes: N sentences of M rows (positions in the encoder, hypotheses in a step); C channels in H heads of D; S source
positions. E entries are the keys of a sentence's hypotheses in all steps so far; R relative distances.
"""

from dataclasses import dataclass
from typing import Any

from deepnmt.engines.onnx.graph import FLOAT, Graph, Value
from deepnmt.engines.onnx.layers import linear


@dataclass(frozen=True)
class Heads:
    """How rows, NM x C, are cut into the heads of one stack.

    Args:
        graph: to which operations are added
        lead: a vector of N and M
        module: an attention of the stack
    """

    graph: Graph
    lead: Value
    module: Any

    def split(self, x: Value, number: int = 1) -> Value:
        """Return N x H x M x D for rows NM x C; for several outputs side by side, their heads after one another."""
        graph, module = self.graph, self.module
        heads = graph.integers(number * module.num_heads, module.head_dim)
        size = f"{number * module.num_heads} heads of {module.head_dim}"
        (shape,) = graph.once(size, self.lead, lambda: (graph.op("Concat", self.lead, heads, axis=0),))
        return graph.op("Transpose", graph.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def join(self, x: Value) -> Value:
        """Return rows NM x C of N x H x M x D."""
        graph = self.graph
        return graph.op(
            "Reshape",
            graph.op("Transpose", x, perm=[0, 2, 1, 3]),
            graph.integers(-1, self.module.num_heads * self.module.head_dim),
        )

    def project(self, x: Value, *projections: Any, scale: float = 1.0) -> list[Value]:
        """Return the results of projections of rows, N x H x M x D each, the first one's multiplied by `scale`."""
        graph, number = self.graph, len(projections)
        together = self.split(linear(graph, x, *projections, scale=scale), number)
        return (
            [together] if number == 1 else graph.op_with_outputs(number, "Split", together, axis=1, num_outputs=number)
        )

    def query(self, x: Value) -> Value:
        """Return the scaled queries of rows, N x H x M x D."""
        return self.project(x, self.module.q_proj, scale=self.module.scaling)[0]

    def all_three(self, x: Value) -> list[Value]:
        """Return the scaled queries, the keys and the values of rows, N x H x M x D each."""
        module = self.module
        return self.project(x, module.q_proj, module.k_proj, module.v_proj, scale=module.scaling)


def swapped(graph: Graph, x: Value) -> Value:
    """Return ... x B x A of N x H x A x B."""
    return graph.op("Transpose", x, perm=[0, 1, 3, 2])


def weights(graph: Graph, scores: Value, mask: Value) -> Value:
    """Return probabilities over the last axis; the mask added to the scores is -inf at hidden entries."""
    return graph.op("Softmax", graph.op("Add", scores, mask), axis=-1)


class EncoderAttention:
    """Self-attention over all positions of a source.

    Args:
        graph: to which operations are added
        module: of the model
        lead: a vector of N and S
        mask: N x 1 x 1 x S, -inf at padding, else 0
    """

    def __init__(self, graph: Graph, module: Any, lead: Value, mask: Value) -> None:
        self.graph, self.module, self.lead, self.mask = graph, module, lead, mask
        self.heads = Heads(graph, lead, module)

    def __call__(self, x: Value) -> Value:
        """Return the sublayer's function of rows NS x C."""
        graph, heads = self.graph, self.heads
        query, key, value = heads.all_three(x)
        scores = graph.op("MatMul", query, swapped(graph, key))
        keys = getattr(self.module, "relative_keys", None)
        if keys is None:
            attended = graph.op("MatMul", weights(graph, scores, self.mask), value)
            return linear(graph, heads.join(attended), self.module.out_proj)
        index = self._distances()
        by_distance = graph.op("MatMul", query, graph.weight(keys.t()))
        scores = graph.op("Add", scores, graph.op("GatherElements", by_distance, index, axis=-1))
        probabilities = weights(graph, scores, self.mask)
        attended = graph.op("MatMul", probabilities, value)
        if self.module.relative_values is not None:
            nothing = graph.op("Mul", by_distance, graph.number(0.0))
            sums = graph.op("ScatterElements", nothing, index, probabilities, axis=-1, reduction="add")
            attended = graph.op("Add", attended, graph.op("MatMul", sums, graph.weight(self.module.relative_values)))
        return linear(graph, heads.join(attended), self.module.out_proj)

    def _distances(self) -> Value:
        """Return the row of aK and aV for each pair of positions, N x H x S x S."""
        graph, longest = self.graph, self.module.max_length
        length = graph.op("Gather", self.lead, graph.op("Squeeze", graph.integers(1)))
        position = graph.op("Range", _scalar(graph, 0), length, _scalar(graph, 1))
        distance = graph.op(
            "Sub",
            graph.op("Unsqueeze", position, graph.integers(0)),
            graph.op("Unsqueeze", position, graph.integers(1)),
        )
        index = row_of_distance(graph, distance, longest)
        shape = graph.op(
            "Concat",
            graph.op("Slice", self.lead, graph.integers(0), graph.integers(1)),
            graph.integers(self.module.num_heads, 1, 1),
            axis=0,
        )
        return graph.op("Expand", index, shape)


def row_of_distance(graph: Graph, distance: Value, longest: int) -> Value:
    """Return clip(distance, -longest, longest) + longest, the row of aK and aV."""
    clipped = graph.op("Clip", distance, _scalar(graph, -longest), _scalar(graph, longest))
    return graph.op("Add", clipped, _scalar(graph, longest))


def _scalar(graph: Graph, number: int) -> Value:
    return graph.op("Squeeze", graph.integers(number))


class SelfAttentionStep:
    """Self-attention of the newest position, whose key and value become the last M entries.

    Inputs of the graph are keys and values, N x H x entries before x D; outputs the same with the new ones.

    Args:
        graph: to which operations are added
        module: of the model
        lead: a vector of N and M
        mask: N x 1 x M x E, 0 where a hypothesis descends from an entry, else -inf
        ages: E, position of each entry less the position of the newest
        layer: its number, for the names of inputs and outputs

    Attributes:
        weights: probabilities, N x H x M x E, after a call without ages
    """

    weights: Value

    def __init__(self, graph: Graph, module: Any, lead: Value, mask: Value, ages: Value | None, layer: int) -> None:
        self.graph, self.module, self.mask, self.ages, self.layer = graph, module, mask, ages, layer
        self.heads = Heads(graph, lead, module)

    def __call__(self, x: Value) -> Value:
        """Return the sublayer's function of rows NM x C."""
        graph, module, heads = self.graph, self.module, self.heads
        query, key, value = heads.all_three(x)
        keys, values = self._with_cache("key", key), self._with_cache("value", value)
        scores = graph.op("MatMul", query, swapped(graph, keys))
        if self.ages is None:
            self.weights = weights(graph, scores, self.mask)
            return linear(graph, heads.join(graph.op("MatMul", self.weights, values)), module.out_proj)
        # All hypotheses are equally long, so an entry has one distance for all of them.
        index = row_of_distance(graph, self.ages, module.max_length)
        relative_keys = graph.op("Gather", graph.weight(module.relative_keys.t()), index, axis=1)  # D x E
        scores = graph.op("Add", scores, graph.op("MatMul", query, relative_keys))
        probabilities = weights(graph, scores, self.mask)
        attended = graph.op("MatMul", probabilities, values)
        if module.relative_values is not None:
            relative_values = graph.op("Gather", graph.weight(module.relative_values), index)  # E x D
            attended = graph.op("Add", attended, graph.op("MatMul", probabilities, relative_values))
        return linear(graph, heads.join(attended), module.out_proj)

    def _with_cache(self, name: str, new: Value) -> Value:
        graph, axes = self.graph, ("sentences", self.module.num_heads)
        before = graph.input(f"{name}_{self.layer}", FLOAT, *axes, "entries_before", self.module.head_dim)
        entries = graph.op("Concat", before, new, axis=2)
        graph.output(f"next_{name}_{self.layer}", FLOAT, entries, *axes, "entries", self.module.head_dim)
        return entries


def source_entries(graph: Graph, module: Any, source: Value, lead: Value, layer: int) -> None:
    """Output a source's keys, N x H x D x S, and values, N x H x S x D. Its rows are NS x C."""
    heads, axes = Heads(graph, lead, module), ("sentences", module.num_heads)
    key, value = heads.project(source, module.k_proj, module.v_proj)
    graph.output(f"source_key_{layer}", FLOAT, swapped(graph, key), *axes, module.head_dim, "source")
    graph.output(f"source_value_{layer}", FLOAT, value, *axes, "source", module.head_dim)


class SourceAttentionStep:
    """Attention of the newest position to the source, whose keys and values are inputs of the graph.

    Args:
        graph: to which operations are added
        module: of the model
        lead: a vector of N and M
        mask: N x 1 x 1 x S, -inf at padding, else 0
        layer: its number, for the names of inputs

    Attributes:
        result: the attended values before the last projection, rows NM x C, after a call
    """

    result: Value

    def __init__(self, graph: Graph, module: Any, lead: Value, mask: Value, layer: int) -> None:
        self.graph, self.module, self.mask, self.layer = graph, module, mask, layer
        self.heads = Heads(graph, lead, module)

    def __call__(self, x: Value) -> Value:
        """Return the sublayer's function of rows NM x C."""
        self.result = self.attended(x)
        return linear(self.graph, self.result, self.module.out_proj)

    def attended(self, x: Value) -> Value:
        """Return the attended values before the last projection: rows NM x C."""
        graph, axes, width = self.graph, ("sentences", self.module.num_heads), self.module.head_dim
        keys = graph.input(f"source_key_{self.layer}", FLOAT, *axes, width, "source")
        values = graph.input(f"source_value_{self.layer}", FLOAT, *axes, "source", width)
        scores = graph.op("MatMul", self.heads.query(x), keys)
        return self.heads.join(graph.op("MatMul", weights(graph, scores, self.mask), values))


class MergedAttentionStep(SourceAttentionStep):
    """Merged attention (12): for the target, the sum of the values so far is kept.

    An input of the graph is the sum after the previous step, a row for each hypothesis; an output, the new sum.

    Args:
        graph, module, lead, mask, layer: see `SourceAttentionStep`
        parents: for each row, the row of the previous step that it continues
        count: positions so far, this one included; a number as float
    """

    def __init__(
        self, graph: Graph, module: Any, lead: Value, mask: Value, layer: int, parents: Value, count: Value
    ) -> None:
        super().__init__(graph, module, lead, mask, layer)
        self.parents, self.count = parents, count

    def __call__(self, x: Value) -> Value:
        """As `SourceAttentionStep`."""
        graph, width = self.graph, self.module.embed_dim
        before = graph.input(f"total_{self.layer}", FLOAT, "rows_before", width)
        value = linear(graph, x, self.module.v_proj)
        total = graph.op("Add", graph.op("Gather", before, self.parents), value)
        graph.output(f"next_total_{self.layer}", FLOAT, total, "rows", width)
        mean = graph.op("Div", total, self.count)
        return linear(graph, graph.op("Add", self.attended(x), mean), self.module.out_proj)
