"""A model for CTranslate2: its specification, filled from a Transformer of this package or fairseq's own.

CTranslate2 also reads the files in ctranslate2/ of the model folder by itself: config.json, model.bin and the
vocabularies. Features unknown to CTranslate2 are folded into the tensors:

Skipping (15) multiplies a sublayer's function by a factor in inference; its last matrix and bias are scaled likewise.

Scaled residuals, DeepNorm's constant (4) and Admin's vector (14), occur in post-norm stacks alone. A sublayer computes
LN(w x + F(x)); CTranslate2 computes LN(y + F(y / w)) with y = w x. The writer of y, the embedding or the previous norm,
is multiplied by w. The columns of F's first matrices, which read y, are divided by w.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import common_spec, transformer_spec
from numpy.typing import NDArray
from torch import Tensor, nn

from deepnmt.checkpoints.contents import is_buffer
from deepnmt.checkpoints.data_fit import trained_settings
from deepnmt.engines.ctranslate2.engine import FILES, LONGEST_SOURCE, LONGEST_TARGET
from deepnmt.engines.ctranslate2.options import ACTIVATIONS, faults, options_of
from deepnmt.engines.torch.fairseq_engine import load_checkpoints
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import StackOptions
from deepnmt.model.sublayers import CROSS_ATTENTION, FEED_FORWARD, SELF_ATTENTION

Array = NDArray[np.float64]


class Tensors:
    """The tensors of a model by their names; keeps a record of the tensors taken."""

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


def residual_scales(tensors: Tensors, options: StackOptions) -> list[Array]:
    """Return `w` of each sublayer of a stack, C each, and ones for the place after the last.

    Raises:
        UserError: one has a zero, and division by it is impossible
    """
    scales = []
    for layer in range(options.layers):
        for sublayer in options.sublayers:
            name = f"{options.name}.layers.{layer}.{sublayer}_residual.weight"
            scale = np.full(options.width, options.residual_scale)
            if options.residual_trained:
                scale = tensors.take(name)
            if not scale.all():
                raise UserError(f"{name}: must have no zeros with --engine ctranslate2; use --engine onnx")
            scales.append(scale)
    return [*scales, np.ones(options.width)]


def set_layer(spec: Any, tensors: Tensors, options: StackOptions, layer: int, scales: Sequence[Array]) -> None:
    """Set one layer of CTranslate2's; `scales` are `w` of its sublayers and of the next one."""
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


def write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None:
    """Write ctranslate2/ of one checkpoint into a model folder; see `deepnmt.engines.registry`.

    Raises:
        UserError: CTranslate2 cannot express the model; a line for each reason
    """
    loaded = load_checkpoints(checkpoints, data, trained_settings(checkpoints, data).languages, device="cpu")
    save(specification(loaded.models[0], loaded.source, loaded.target), folder / FILES, weights)


def save(spec: transformer_spec.TransformerSpec, folder: Path, weights: str = "float32") -> None:
    """Write a specification into a new folder; int8 has a scale for each row of a matrix."""
    spec.validate()
    spec.optimize(quantization=weights)
    folder.mkdir()
    spec.save(str(folder))


def specification(model: Any, source: Any, target: Any) -> transformer_spec.TransformerSpec:
    """Return the specification of a model in evaluation mode with these dictionaries of fairseq.

    Raises:
        UserError: CTranslate2 cannot express the model; a line for each reason
    """
    config = options_of(model)
    if config is None:
        raise UserError(f"a {type(model).__name__}: use --engine torch")
    if reasons := list(faults(config)):
        raise UserError(*reasons)
    tensors = Tensors(model.state_dict())
    spec = transformer_spec.TransformerSpec(_encoder(model, config, tensors), _decoder(model, config, tensors))
    if left := tensors.left():
        more = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
        raise UserError(f"{left[0]}{more}: use --engine torch")
    spec.register_source_vocabulary(list(source.symbols))
    spec.register_target_vocabulary(list(target.symbols))
    settings: dict[str, object] = {
        "bos_token": source[source.bos()],
        "eos_token": source[source.eos()],
        "unk_token": source[source.unk()],
        "decoder_start_token": target[target.eos()],
        "add_source_eos": True,
        "layer_norm_epsilon": 1e-5,
    }
    for name, value in settings.items():
        setattr(spec.config, name, value)
    for name, longest in zip((LONGEST_SOURCE, LONGEST_TARGET), model.max_positions()):
        spec.config.add_attribute(name, int(longest))
    return spec


def _encoder(model: Any, config: DLCLTransformerConfig, tensors: Tensors) -> transformer_spec.TransformerEncoderSpec:
    spec = transformer_spec.TransformerEncoderSpec(len(model.encoder.layers), **_shared(config, "encoder"))
    _set_stack(spec, spec.embeddings[0], model.encoder, config.stack("encoder"), tensors)
    return spec


def _decoder(model: Any, config: DLCLTransformerConfig, tensors: Tensors) -> transformer_spec.TransformerDecoderSpec:
    final_norm = not config.no_decoder_final_norm
    shared = _shared(config, "decoder")
    spec = transformer_spec.TransformerDecoderSpec(len(model.decoder.layers), no_final_norm=not final_norm, **shared)
    _set_stack(spec, spec.embeddings, model.decoder, config.stack("decoder"), tensors)
    spec.projection.weight = _stored(tensors.take("decoder.output_projection.weight"))
    return spec


def _shared(config: DLCLTransformerConfig, stack: str) -> dict[str, Any]:
    """Return the settings that the specifications of both stacks share."""
    return {
        "num_heads": getattr(config, f"{stack}_attention_heads"),
        "pre_norm": config.norm(stack).before,
        "activation": common_spec.Activation[ACTIVATIONS[str(config.activation_fn)]],
        "layernorm_embedding": config.layernorm_embedding,
        "relative_position": bool(getattr(config, f"{stack}_max_relative_length")),
    }


def _set_stack(spec: Any, embeddings: Any, stack: Any, options: StackOptions, tensors: Tensors) -> None:
    """Set a stack except the projection to the vocabulary; `embeddings` belong to `spec`."""
    # For a pruned model, fewer than the options say.
    options = dataclasses.replace(options, layers=len(stack.layers))
    name, scales = options.name, residual_scales(tensors, options)
    spec.scale_embeddings = float(stack.embed_scale)
    ones = np.ones(options.width)
    # The norm of the embedding, or without one the embedding itself, writes the first sublayer's input.
    written = ones if stack.layernorm_embedding is not None else scales[0]
    embeddings.weight = _stored(tensors.take(f"{name}.embed_tokens.weight") * written)
    if hasattr(spec, "position_encodings"):
        spec.position_encodings.encodings = _stored(_positions(stack, options, tensors) * written)
    if stack.layernorm_embedding is not None:
        set_norm(spec.layernorm_embedding, tensors, f"{name}.layernorm_embedding", scales[0])
    count = len(options.sublayers)
    for layer in range(options.layers):
        first = layer * count
        set_layer(spec.layer[layer], tensors, options, layer, scales[first : first + count + 1])
    if stack.layer_norm is not None:
        set_norm(spec.layer_norm, tensors, f"{name}.layer_norm", ones)


def _positions(stack: Any, options: StackOptions, tensors: Tensors) -> Array:
    """Return the vectors of the positions from the first one on, P x C."""
    module = stack.embed_positions
    if module is None:
        # Without a table, CTranslate2 adds sinusoids.
        return np.zeros((int(stack.max_positions()), options.width))
    if isinstance(module, nn.Embedding):
        table = tensors.take(f"{options.name}.embed_positions.weight")
    else:
        table = module.weights.double().numpy()
    return table[module.padding_idx + 1 :]
