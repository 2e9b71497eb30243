"""A model for CTranslate2: its specification, filled from a Transformer of this package or fairseq's own.

The files stand in ctranslate2/ of the model folder, which CTranslate2 reads by itself, too: config.json, model.bin and
the vocabularies.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import common_spec, transformer_spec
from torch import nn

from deepnmt.checkpoints.data_fit import trained_settings
from deepnmt.engines.ctranslate2.engine import FILES, LONGEST_SOURCE, LONGEST_TARGET
from deepnmt.engines.ctranslate2.layers import (
    Array,
    Tensors,
    residual_scales,
    set_embeddings,
    set_layer,
    set_norm,
    set_output,
    set_positions,
)
from deepnmt.engines.ctranslate2.options import ACTIVATIONS, faults, options_of
from deepnmt.engines.torch.engine import load_checkpoints
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import StackOptions

WEIGHTS = ("float32", "int8")


def write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None:
    """Write ctranslate2/ into a model folder.

    Args:
        checkpoints: one
        data: folder of the data that it was trained on
        folder: to write into
        weights: "float32" or "int8"

    Raises:
        UserError: CTranslate2 cannot express the model; a line for each reason
    """
    reasons = []
    if weights not in WEIGHTS:
        reasons.append(f"--weights {weights}: use --engine torch")
    if len(checkpoints) > 1:
        reasons.append(f"an ensemble of {len(checkpoints)} checkpoints: use --engine torch")
    if reasons:
        raise UserError(*reasons)
    loaded = load_checkpoints(checkpoints, data, trained_settings(checkpoints, data).languages, device="cpu")
    save(specification(loaded.models[0], loaded.source, loaded.target), folder / FILES, weights)


def save(spec: transformer_spec.TransformerSpec, folder: Path, weights: str = "float32") -> None:
    """Write a specification into a new folder; int8 has a scale for each row of a matrix."""
    spec.validate()
    spec.optimize(quantization=weights)
    folder.mkdir()
    spec.save(str(folder))


def specification(model: Any, source: Any, target: Any) -> transformer_spec.TransformerSpec:
    """Return the specification of a model.

    Args:
        model: in evaluation mode
        source: fairseq's dictionary
        target: the same

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
    set_output(spec.projection, tensors, "decoder.output_projection")
    return spec


def _shared(config: DLCLTransformerConfig, stack: str) -> dict[str, Any]:
    """Return what the specifications of both stacks ask for."""
    return {
        "num_heads": getattr(config, f"{stack}_attention_heads"),
        "pre_norm": config.norm(stack).before,
        "activation": common_spec.Activation[ACTIVATIONS[str(config.activation_fn)]],
        "layernorm_embedding": config.layernorm_embedding,
        "relative_position": bool(getattr(config, f"{stack}_max_relative_length")),
    }


def _set_stack(spec: Any, embeddings: Any, stack: Any, options: StackOptions, tensors: Tensors) -> None:
    """Set a stack but for the projection to the vocabulary; `embeddings` are those of `spec`."""
    # Of a pruned model, fewer than the options say.
    options = dataclasses.replace(options, layers=len(stack.layers))
    name, scales = options.name, residual_scales(tensors, options)
    spec.scale_embeddings = float(stack.embed_scale)
    ones = np.ones(options.width)
    # What the first sublayer reads is written by the norm of the embedding or, without one, by the embedding itself.
    written = ones if stack.layernorm_embedding is not None else scales[0]
    set_embeddings(embeddings, tensors, f"{name}.embed_tokens.weight", written)
    if hasattr(spec, "position_encodings"):
        set_positions(spec.position_encodings, _positions(stack, options, tensors), written)
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
