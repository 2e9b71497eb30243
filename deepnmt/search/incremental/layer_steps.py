"""The layers of a decoder that runs position by position: the model's layers, without their training-only parts.

Twins: deepnmt/model/layers.py, deepnmt/model/fused_encoder.py

Shapes: N sentences of M hypotheses, rows MN, hypothesis-major; C channels; S source positions.

In a step of a few hypotheses, calls take two fifths of the time. Modules' attributes are therefore looked up once, and
results without other readers are overwritten.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepnmt.kernels.output_norm import OutputNorm
from deepnmt.model.sublayers import FEED_FORWARD, sublayers_of
from deepnmt.search.incremental.attention_steps import (
    Carried,
    Memory,
    MergedAttentionSteps,
    RelativeSelfAttentionSteps,
    SelfAttentionSteps,
    SourceAttentionSteps,
    Step,
)
from deepnmt.search.incremental.maps import Maps
from deepnmt.search.incremental.one_source_steps import OneSourceAttentionSteps, fits
from deepnmt.search.incremental.recurrent_steps import RECURRENT_STEPS
from deepnmt.search.incremental.shared_steps import FollowingSelfAttentionSteps, FollowingSourceAttentionSteps

Function = Callable[[Tensor], Tensor]


def norm_function(norm: Any) -> Optional[Function]:
    """Return the function that a norm computes, or None if it does nothing."""
    if norm is None or type(norm) is nn.Identity:
        return None
    if type(norm) not in (nn.LayerNorm, OutputNorm):
        return norm  # type: ignore[no-any-return]
    return functools.partial(
        torch.layer_norm, normalized_shape=norm.normalized_shape, weight=norm.weight, bias=norm.bias, eps=norm.eps
    )


@dataclass(frozen=True)
class SublayerSteps:
    """A sublayer: `DeepLayer.sublayer`, or its counterpart in fairseq's layers.

    Attributes:
        branch: F, whose result is overwritten
        norm: the layer norm; None: no norm
        before: the norm precedes F
        after: the norm comes last
        factor: the multiplier of F
        scale: the multiplier of the input, a number or a vector of C channels
        input_added: the layer's input is added before the norm
    """

    branch: Callable[[Tensor, Step], Tensor]
    norm: Optional[Function]
    before: bool
    after: bool
    factor: float = 1.0
    scale: float | Tensor = 1.0
    input_added: bool = False

    def __call__(self, x: Tensor, step: Step, layer_input: Tensor) -> Tensor:
        """Return the output, MN x C, for an input MN x C."""
        y = self.branch(self.norm(x) if self.norm is not None and self.before else x, step)
        if self.factor != 1.0:
            y *= self.factor
        if isinstance(self.scale, Tensor):
            y.addcmul_(x, self.scale)
        else:
            y.add_(x, alpha=self.scale)
        if self.input_added:
            y += layer_input
        return self.norm(y) if self.norm is not None and self.after else y


class LayerSteps:
    """A layer, of this package or fairseq's own.

    Args:
        layer: the module
        maps: of the model
        source: the encoder's output
        backward: the states of a two-sided model, or of a frozen encoder; None for others
        beam: K
        factors: the multipliers of the sublayers' outputs
        below: the layer below; None for the first one
    """

    def __init__(
        self,
        layer: Any,
        maps: Maps,
        source: Memory,
        backward: Optional[Memory],
        beam: int,
        factors: tuple[float, ...],
        below: "Optional[LayerSteps]" = None,
    ) -> None:
        self.self_attention: Optional[SelfAttentionSteps | Carried] = None
        self.source_attention: Optional[SourceAttentionSteps] = None
        self.backward_attention: Optional[SourceAttentionSteps] = None
        branches: dict[str, Callable[[Tensor, Step], Tensor]] = {}
        if type(layer.self_attn) in RECURRENT_STEPS:
            recurrent = RECURRENT_STEPS[type(layer.self_attn)](layer.self_attn, maps)
            self.self_attention = branches["self_attn"] = recurrent
        elif getattr(layer.self_attn, "follows", False):
            leader = _leader(below, "self_attention")
            following = FollowingSelfAttentionSteps(layer.self_attn, maps, source.states.size(1), beam, leader)
            self.self_attention = branches["self_attn"] = following
        elif layer.self_attn is not None:
            relative = getattr(layer.self_attn, "relative_keys", None) is not None
            steps = RelativeSelfAttentionSteps if relative else SelfAttentionSteps
            self.self_attention = branches["self_attn"] = steps(layer.self_attn, maps, source.states.size(1), beam)
        if getattr(layer.encoder_attn, "follows", False):
            leader = _leader(below, "source_attention")
            self.source_attention = FollowingSourceAttentionSteps(layer.encoder_attn, maps, leader)
            branches["encoder_attn"] = self.source_attention
        elif layer.encoder_attn is not None:
            attention: type[SourceAttentionSteps] = SourceAttentionSteps
            if layer.self_attn is None:
                attention = MergedAttentionSteps
            elif not getattr(layer.encoder_attn, "leads", False) and fits(layer.encoder_attn, source):
                attention = OneSourceAttentionSteps
            self.source_attention = attention(layer.encoder_attn, maps, source)
            branches["encoder_attn"] = self.source_attention
        self.fused = getattr(layer, "fused", False)
        if backward is not None:
            self.backward_attention = SourceAttentionSteps(layer.backward_attn, maps, backward)
            branches["encoder_attn"] = self._attend_both
        branches[FEED_FORWARD] = feed_forward(layer, maps)
        self.sublayers = [
            sublayer(layer, name, branches[name], factor) for name, factor in zip(sublayers_of(layer), factors)
        ]

    def __call__(self, x: Tensor, step: Step) -> Tensor:
        """Return the output, MN x C, for an input MN x C."""
        layer_input = x
        for function in self.sublayers:
            x = function(x, step, layer_input)
        return x

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        """As `DecoderSteps.keep`."""
        for attention in (self.self_attention, self.source_attention, self.backward_attention):
            if attention is not None:
                attention.keep(sentences, holes, movers)

    def _attend_both(self, x: Tensor, step: Step) -> Tensor:
        """Return the function of a cross-attention's sublayer with a second attention, MN x C."""
        assert self.source_attention is not None
        assert self.backward_attention is not None
        second = self.backward_attention(x, replace(step, padding=step.backward_padding))
        both = self.source_attention(x, step).add_(second)
        return both.mul_(0.5) if self.fused else both


def _leader(below: Any, name: str) -> Any:
    """Return the attention of a name that a layer follows, where its neighbour below leads or follows the same one."""
    attention = getattr(below, name)
    return getattr(attention, "leader", attention)


def sublayer(layer: Any, name: str, branch: Callable[[Tensor, Step], Tensor], factor: float) -> SublayerSteps:
    """Return the sublayer of a name as in `sublayers.py`, with the function F and its factor."""
    norm = norm_function(getattr(layer, f"{name}_layer_norm"))
    if not hasattr(layer, "norm_position"):
        # fairseq's own layer.
        return SublayerSteps(branch, norm, before=layer.normalize_before, after=not layer.normalize_before)
    residual: Any = getattr(layer, f"{name}_residual")
    scale = residual.scale if residual.weight is None else residual.weight
    position = layer.norm_position
    added = position.layer_input and name == FEED_FORWARD
    return SublayerSteps(branch, norm, position.before, position.after, factor, scale, added)


def feed_forward(layer: Any, maps: Maps) -> Callable[[Tensor, Step], Tensor]:
    """Return the feed-forward sublayer's function."""
    first, second, activation = maps(layer.fc1), maps(layer.fc2), layer.activation_fn
    if activation in (F.relu, torch.relu):
        activation = torch.relu_

    def function(x: Tensor, step: Step) -> Tensor:
        return second(activation(first(x)))

    return function
