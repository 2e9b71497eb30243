"""Attention with the weights of another layer, at the newest position of a beam search.

Twin: deepnmt/model/shared_attention.py

Shapes: N sentences of M hypotheses, rows MN, hypothesis-major; C channels in H heads of D; P positions, beam K.
"""

from typing import Any

from torch import Tensor

from deepnmt.search.incremental.attention_steps import FIRST_CAPACITY, SelfAttentionSteps, SourceAttentionSteps, Step
from deepnmt.search.incremental.maps import Maps


class FollowingSelfAttentionSteps(SelfAttentionSteps):
    """A layer's self-attention by the weights of a leading layer, equation (47): values alone are kept."""

    def __init__(self, module: Any, maps: Maps, sentences: int, beam: int, leader: SelfAttentionSteps) -> None:
        super(SelfAttentionSteps, self).__init__(module, maps)
        self.beam, self.leader, self.value = beam, leader, maps(module.v_proj)
        entries = FIRST_CAPACITY * beam
        values = module.v_proj.weight.new_zeros(sentences, self.heads, entries, self.width)
        self.hold(values.new_empty(sentences, self.heads, 0, entries), values)

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return the sublayer's function of the newest position, MN x C."""
        value = self.value(x).view(step.hypotheses, -1, self.heads, self.width)
        self._write(value[..., :0], value, step)
        weights = self.leader.weights
        return self.out(self.by_rows(self._attend(weights, self.values.narrow(1, 0, weights.size(-1)), step)))


class FollowingSourceAttentionSteps(SourceAttentionSteps):
    """A layer's attention to the source by the result of a leading layer, equation (47)."""

    def __init__(self, module: Any, maps: Maps, leader: SourceAttentionSteps) -> None:
        super(SourceAttentionSteps, self).__init__(module, maps)
        self.leader = leader

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return the sublayer's function of the newest position, MN x C; `weights` are the leader's."""
        self.weights = self.leader.weights
        return self.out(self.leader.attended)

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """Nothing is kept."""
