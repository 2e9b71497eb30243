"""Attention to the source of a single sentence, where calls are most of the time.

Twin: deepnmt/model/attention.py

Shapes: M hypotheses of one sentence; C channels in H heads of D; S source positions.

In each head, what becomes of the source's keys K and values V is multiplied by the weights beforehand,

    softmax((x Wq + q) K') V Wo + o  =  softmax(x A + a) B + o,    A = Wq K', a = q K', B = V Wo

so that a step has two products instead of four, and nothing to move between rows and heads.
"""

from typing import Any, Optional

import torch
from torch import Tensor

from deepnmt.search.incremental.attention_steps import Memory, SourceAttentionSteps, Step
from deepnmt.search.incremental.maps import Maps
from deepnmt.search.reduced import kind_of


class OneSourceAttentionSteps(SourceAttentionSteps):
    """A layer's attention to the source of a sentence for which `fits` is true."""

    def __init__(self, module: Any, maps: Maps, memory: Memory) -> None:
        super().__init__(module, maps, memory)
        query, out, positions = module.q_proj, module.out_proj, memory.positions
        keys, values = self.keys[..., :positions], self.values[:, :positions]
        weight = (query.weight * module.scaling).view(self.heads, self.width, -1)
        self.to_scores = torch.bmm(weight.mT, keys).transpose(0, 1).flatten(1)  # A, C x HS
        self.scores_bias: Optional[Tensor] = None  # HS
        if query.bias is not None:
            bias = (query.bias * module.scaling).view(self.heads, 1, self.width)
            self.scores_bias = torch.bmm(bias, keys).flatten()
        weight = out.weight.view(-1, self.heads, self.width).permute(1, 2, 0)  # H x D x C
        self.to_output, self.output_bias = torch.bmm(values, weight).flatten(0, 1), out.bias  # B, HS x C

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """As `SourceAttentionSteps`."""
        weights = torch.softmax(_affine(x, self.to_scores, self.scores_bias).view(x.size(0), self.heads, -1), -1)
        self.weights = weights.transpose(0, 1)
        return _affine(weights.flatten(1), self.to_output, self.output_bias)


def fits(module: Any, memory: Memory) -> bool:
    """Return whether a sentence is alone, and so short that A and B are no larger than the weights."""
    states = memory.states
    exact = kind_of(module.q_proj) == kind_of(module.out_proj) == "float32" and states.dtype == torch.float32
    alone = states.size(1) == 1 and memory.unpadded and memory.positions <= module.head_dim
    return exact and alone and states.device.type == "cpu"


def _affine(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    return torch.mm(x, weight) if bias is None else torch.addmm(bias, x, weight)
