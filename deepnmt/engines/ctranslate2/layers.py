"""The tensors of a stack as CTranslate2 lays them out, with what it does not know folded into them.

Skipping (15) multiplies a sublayer's function by a factor in inference: so are its last matrix and bias.

Scaled residuals, DeepNorm's constant (4) and Admin's vector (14), stand in post-norm stacks alone. For a sublayer that
computes LN(w x + F(x)), CTranslate2 computes LN(y + F(y / w)) with y = w x: what writes y, the embedding or the norm
before, is multiplied by w, and the columns of F's first matrices, which read it, are divided by w.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from ctranslate2.specs import common_spec
from numpy.typing import NDArray
from torch import Tensor

from deepnmt.checkpoints.contents import is_buffer
from deepnmt.errors import UserError
from deepnmt.model.stack import StackOptions
from deepnmt.model.sublayers import CROSS_ATTENTION, FEED_FORWARD, SELF_ATTENTION

Array = NDArray[np.float64]


class Tensors:
    """The tensors of a model by their names, which notes those that are taken.

    Args:
        tensors: of the model
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = {name: tensor for name, tensor in tensors.items() if not is_buffer(name)}
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str) -> Array:
        """Return a copy of a tensor."""
        self._taken.add(name)
        return self._tensors[name].detach().cpu().double().numpy().copy()

    def left(self) -> list[str]:
        """Return the names of the tensors that were never taken."""
        return [name for name in self._tensors if name not in self._taken]


def set_norm(spec: Any, tensors: Tensors, name: str, scale: Array) -> None:
    """Set a layer norm whose output is multiplied by `scale`, C."""
    spec.gamma = _stored(tensors.take(f"{name}.weight") * scale)
    spec.beta = _stored(tensors.take(f"{name}.bias") * scale)


def set_embeddings(spec: Any, tensors: Tensors, name: str, scale: Array) -> None:
    """Set a table, V x C, whose columns are multiplied by `scale`, C."""
    spec.weight = _stored(tensors.take(name) * scale)


def set_positions(spec: Any, table: Array, scale: Array) -> None:
    """Set the vectors of the positions from the first one on, P x C, multiplied by `scale`, C."""
    spec.encodings = _stored(table * scale)


def set_output(spec: Any, tensors: Tensors, name: str) -> None:
    """Set the projection to the vocabulary."""
    spec.weight = _stored(tensors.take(f"{name}.weight"))


def residual_scales(tensors: Tensors, options: StackOptions) -> list[Array]:
    """Return `w` of each sublayer of a stack, C each, and ones for what comes after the last.

    Raises:
        UserError: one has a zero, by which nothing can be divided
    """
    scales = []
    for layer in range(options.layers):
        for sublayer in options.sublayers:
            name = f"{options.name}.layers.{layer}.{sublayer}_residual.weight"
            scale = np.full(options.width, options.residual_scale)
            if options.residual_trained:
                scale = tensors.take(name)
            if not scale.all():
                raise UserError(f"{name}: must have no zeros for --engine ctranslate2, but has; use --engine onnx")
            scales.append(scale)
    return [*scales, np.ones(options.width)]


def set_layer(spec: Any, tensors: Tensors, options: StackOptions, layer: int, scales: Sequence[Array]) -> None:
    """Set one layer.

    Args:
        spec: CTranslate2's encoder or decoder layer
        tensors: of the model
        options: of the stack
        layer: its number
        scales: `w` of the layer's sublayers and of the one that follows
    """
    prefix, factors = f"{options.name}.layers.{layer}", options.inference_factors()[layer]
    for number, (sublayer, factor) in enumerate(zip(options.sublayers, factors)):
        part = {SELF_ATTENTION: "self_attention", CROSS_ATTENTION: "attention", FEED_FORWARD: "ffn"}[sublayer]
        own: Any = getattr(spec, part)
        read, written = 1 / scales[number], scales[number + 1]
        set_norm(own.layer_norm, tensors, f"{prefix}.{sublayer}_layer_norm", written)
        if sublayer == FEED_FORWARD:
            _set_linear(own.linear_0, [_linear(tensors, f"{prefix}.fc1", read=read)])
            _set_linear(own.linear_1, [_linear(tensors, f"{prefix}.fc2", factor=factor)])
            continue
        module = f"{prefix}.{sublayer}"
        queries = _linear(tensors, f"{module}.q_proj", read=read)
        # Another stack's output is read as it is.
        source = read if sublayer == SELF_ATTENTION else np.ones(1)
        keys_values = [_linear(tensors, f"{module}.{name}_proj", read=source) for name in "kv"]
        maps = [[queries, *keys_values]] if sublayer == SELF_ATTENTION else [[queries], keys_values]
        for linear, parts in zip(own.linear, [*maps, [_linear(tensors, f"{module}.out_proj", factor=factor)]]):
            _set_linear(linear, parts)
        if hasattr(own, "relative_position_keys"):
            keys = tensors.take(f"{module}.relative_keys")
            has_values = f"{module}.relative_values" in tensors
            values = tensors.take(f"{module}.relative_values") if has_values else np.zeros_like(keys)
            own.relative_position_keys, own.relative_position_values = _stored(keys), _stored(values)


def _linear(tensors: Tensors, name: str, read: Array | None = None, factor: float = 1.0) -> tuple[Array, Array]:
    """Return matrix, out x in, and bias; its columns are multiplied by `read`, all by `factor`."""
    weight = tensors.take(f"{name}.weight") * (1.0 if read is None else read)
    bias = tensors.take(f"{name}.bias") if f"{name}.bias" in tensors else np.zeros(len(weight))
    return weight * factor, bias * factor


def _set_linear(spec: common_spec.LinearSpec, parts: Sequence[tuple[Array, Array]]) -> None:
    """Set one map from several that read the same input, their outputs side by side."""
    spec.weight = _stored(np.concatenate([weight for weight, _ in parts]))
    spec.bias = _stored(np.concatenate([bias for _, bias in parts]))


def _stored(values: Array) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, dtype=np.float32)
