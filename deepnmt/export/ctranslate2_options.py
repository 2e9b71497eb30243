"""Which models CTranslate2 can express.

A whitelist: an option that stands in none of the tables here must be at its default, so that what the package learns
tomorrow is refused until somebody has taught `ctranslate2_model.py` how to write it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from fairseq.models.transformer import TransformerModel, TransformerModelBase

from deepnmt.model.config import DLCLTransformerConfig, FlatTransformerConfig
from deepnmt.model.norm_position import NormPosition
from deepnmt.model.stack import STACKS
from deepnmt.model.transformer import DLCLTransformerModel

# fairseq's functions that CTranslate2 has, by the names of its `Activation`.
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_accurate": "GELUTanh", "gelu_fast": "GELUTanh", "tanh": "Tanh"}
NORMS = (NormPosition("", before=True), NormPosition("", after=True))

# Options of which every value that the package allows is written; the facts come from the model's stacks and tensors.
WRITTEN = frozenset(
    [f"{stack}_{name}" for stack in STACKS for name in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")]
    + [f"{stack}_{name}" for stack in STACKS for name in ("normalize_before", "learned_pos", "skip")]
    + ["max_source_positions", "max_target_positions", "layernorm_embedding", "no_scale_embedding"]
    + ["share_decoder_input_output_embed", "share_all_embeddings", "no_token_positional_embeddings"]
    + ["no_decoder_final_norm", "relative_positions", "residual_scale", "skip_schedule", "skip_scale"]
)
# Options that say how a model is initialised, trained or stored, but not what it computes in inference.
TRAINING = frozenset(
    [f"{stack}_{name}" for stack in STACKS for name in ("embed_path", "layerdrop", "layers_to_keep", "word_dropout")]
    + ["dropout", "attention_dropout", "activation_dropout", "relu_dropout", "fast_dropout", "checkpoint_activations"]
    + [
        "offload_activations",
        "min_params_to_wrap",
        "export",
        "initializer",
        "ds_init_alpha",
        "quant_noise_pq_block_size",
    ]
)
# Options of parts that are refused themselves, and that say nothing without them.
OF_REFUSED = {
    "adaptive_softmax_dropout": "adaptive_softmax_cutoff",
    "adaptive_softmax_factor": "adaptive_softmax_cutoff",
    "tie_adaptive_weights": "adaptive_softmax_cutoff",
    "tie_adaptive_proj": "adaptive_softmax_cutoff",
    "base_sublayers": "base_layers",
    "base_shuffle": "base_layers",
    **{
        option.name: "encoder_groups"
        for option in dataclasses.fields(DLCLTransformerConfig)
        if option.name.startswith("dlcl_")
    },
}
# Options of which one value is written, with that value and the engine that has the others.
ONLY: dict[str, tuple[object, str]] = {
    "encoder_groups": ("none", "onnx"),
    "decoder_groups": ("none", "onnx"),
    "merged_attention": (False, "onnx"),
    "adaptive_input": (False, "torch"),
    "adaptive_softmax_cutoff": (None, "torch"),
    "merge_src_tgt_embed": (False, "onnx"),
    "no_cross_attention": (False, "onnx"),
    "cross_self_attention": (False, "torch"),
    "encoder_xformers_att_config": (None, "torch"),
    "decoder_xformers_att_config": (None, "torch"),
    "quant_noise_pq": (0.0, "onnx"),
    "quant_noise_scalar": (0.0, "torch"),
    "char_inputs": (False, "torch"),
    "base_layers": (0, "torch"),
    "two_sided": (False, "torch"),
}
# Options with a rule of their own in `_rules`.
RULES = frozenset(
    [f"{stack}_{name}" for stack in STACKS for name in ("norm", "max_relative_length")]
    + ["activation_fn", "decoder_input_dim", "decoder_output_dim"]
)
KNOWN = WRITTEN | TRAINING | OF_REFUSED.keys() | ONLY.keys() | RULES


def options_of(model: Any) -> DLCLTransformerConfig | None:
    """Return the options of a Transformer, this package's or fairseq's own; None: it is another model."""
    if isinstance(model, DLCLTransformerModel):
        deep: DLCLTransformerConfig = model.cfg.deep
        return deep
    if type(model) not in (TransformerModel, TransformerModelBase):
        return None
    names = {option.name for option in dataclasses.fields(FlatTransformerConfig)} - {"_name"}
    values = {name: getattr(model.cfg, name) for name in names}
    return DLCLTransformerConfig(**{**values, "encoder_groups": "none", "decoder_groups": "none"})


def faults(config: DLCLTransformerConfig) -> Iterator[str]:
    """Yield a line for each option that CTranslate2 cannot express."""
    for option in dataclasses.fields(config):
        value = getattr(config, option.name)
        expressed, engine = ONLY.get(option.name, (option.default, "torch"))
        if option.name == "_name" or (option.name in KNOWN and option.name not in ONLY) or value == expressed:
            continue
        # fairseq's older checkpoints have an empty text, a list or 0 in the place of "not given".
        if value or expressed:
            yield f"{_given(option.name, value)}: use --engine {engine}"
    yield from _rules(config)


def _rules(config: DLCLTransformerConfig) -> Iterator[str]:
    for stack in STACKS:
        norm = config.norm(stack)
        if dataclasses.replace(norm, name="") not in NORMS:
            yield f"--{stack}-norm {norm.name}: use --engine onnx"
        # With relative positions, CTranslate2 leaves the absolute ones out.
        length = getattr(config, f"{stack}_max_relative_length")
        if length and not config.no_token_positional_embeddings:
            yield (
                f"--{stack}-max-relative-length {length} without --no-token-positional-embeddings: use --engine onnx"
            )
    if str(config.activation_fn) not in ACTIVATIONS:
        yield f"--activation-fn {config.activation_fn}: use --engine onnx"
    width = config.width("decoder")
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if getattr(config, name) not in (None, width):
            yield f"{_given(name, getattr(config, name))}: use --engine onnx"


def _given(name: str, value: object) -> str:
    option = "--" + name.replace("_", "-")
    return option if value is True else f"{option} {value}"
