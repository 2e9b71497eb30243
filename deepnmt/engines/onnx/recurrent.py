"""Recurrences in place of self-attention, in one step of the decoder.

Twins: deepnmt/model/ssru.py, deepnmt/model/average_attention.py

Shapes: N sentences of M hypotheses, rows NM; C channels.
"""

from dataclasses import dataclass
from typing import Any

from deepnmt.engines.onnx.graph import FLOAT, Graph, Value
from deepnmt.engines.onnx.layers import linear
from deepnmt.model.average_attention import AverageAttention
from deepnmt.model.ssru import SSRU


@dataclass(frozen=True)
class RecurrentStep:
    """A recurrence of a layer: an input of the graph is a vector of each hypothesis, an output the one after the step.

    Args:
        graph: to which operations are added
        module: of the model
        layer: its number, for the names of inputs and outputs
        parents: for each row, the row of the previous step that it continues
        count: positions so far, this one included; a number as float
    """

    graph: Graph
    module: Any
    layer: int
    parents: Value
    count: Value

    def before(self, name: str, width: int) -> Value:
        """Return the vectors that the rows' parents left, NM x C; zeros in the first step."""
        kept = self.graph.input(f"{name}_{self.layer}", FLOAT, "rows_before", width)
        return self.graph.op("Gather", kept, self.parents)

    def after(self, name: str, vectors: Value, width: int) -> None:
        """Leave vectors, NM x C, to the next step."""
        self.graph.output(f"next_{name}_{self.layer}", FLOAT, vectors, "rows", width)


class SSRUStep(RecurrentStep):
    """SSRU (45): the vector is c."""

    def __call__(self, x: Value) -> Value:
        """Return the sublayer's function of rows NM x C."""
        graph, width = self.graph, self.module.v_proj.out_features
        both = linear(graph, x, self.module.forget_proj, self.module.v_proj)
        gates, values = graph.op_with_outputs(2, "Split", both, axis=1, num_outputs=2)
        gates, before = graph.op("Sigmoid", gates), self.before("mean", width)
        means = graph.op("Add", values, graph.op("Mul", gates, graph.op("Sub", before, values)))
        self.after("mean", means, width)
        return graph.op("Relu", means)


class AverageAttentionStep(RecurrentStep):
    """Average attention (46): the vector is the sum so far."""

    def __call__(self, x: Value) -> Value:
        """Return the sublayer's function of rows NM x C."""
        graph, module = self.graph, self.module
        width = module.gate_proj.out_features // 2
        total = graph.op("Add", self.before("total", width), x)
        self.after("total", total, width)
        mean = graph.op("Div", total, self.count)
        if module.fc1 is not None:
            mean = linear(graph, graph.op("Relu", linear(graph, mean, module.fc1)), module.fc2)
        both = graph.op("Concat", x, mean, axis=1)
        gates = graph.op("Sigmoid", linear(graph, both, module.gate_proj))
        gated = graph.op("Mul", gates, both)
        of_input, of_mean = graph.op_with_outputs(2, "Split", gated, axis=1, num_outputs=2)
        return graph.op("Add", of_input, of_mean)


# By the modules that they compute.
RECURRENT_STEPS: dict[type, type[AverageAttentionStep | SSRUStep]] = {
    AverageAttention: AverageAttentionStep,
    SSRU: SSRUStep,
}
