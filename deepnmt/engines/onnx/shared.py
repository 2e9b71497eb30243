"""Attention with the weights of another layer, in one step of the decoder.

Twin: deepnmt/model/shared_attention.py

Shapes: N sentences of M hypotheses, rows NM; C channels.
"""

from typing import Any

from deepnmt.engines.onnx.attention import SelfAttentionStep, SourceAttentionStep
from deepnmt.engines.onnx.graph import Graph, Value
from deepnmt.engines.onnx.layers import linear


class FollowingSelfAttentionStep(SelfAttentionStep):
    """Self-attention by the weights of a leading layer (47), whose inputs and outputs are values alone.

    Args:
        graph, module, lead, layer: see `SelfAttentionStep`
        leader: the step of that layer
    """

    def __init__(self, graph: Graph, module: Any, lead: Value, layer: int, leader: SelfAttentionStep) -> None:
        super().__init__(graph, module, lead, leader.mask, None, layer)
        self.leader = leader

    def __call__(self, x: Value) -> Value:
        """Return the sublayer's function of rows NM x C."""
        values = self._with_cache("value", self.heads.project(x, self.module.v_proj)[0])
        attended = self.graph.op("MatMul", self.leader.weights, values)
        return linear(self.graph, self.heads.join(attended), self.module.out_proj)


def following_source_attention(graph: Graph, module: Any, leader: SourceAttentionStep) -> Any:
    """Return the function of a layer that projects the result of a leading layer's cross-attention (47)."""
    return lambda x: linear(graph, leader.result, module.out_proj)
