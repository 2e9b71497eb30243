"""Which models CTranslate2 can express."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from fairseq.models.transformer import TransformerModel, TransformerModelBase

from deepnmt.engines.onnx.options import SUPPORT as onnx
from deepnmt.engines.support import Support, given
from deepnmt.model.config import DLCLTransformerConfig, FlatTransformerConfig
from deepnmt.model.norm_position import NormPosition
from deepnmt.model.stack import STACKS
from deepnmt.model.transformer import DLCLTransformerModel

# fairseq's functions that CTranslate2 has, by the names of its `Activation`.
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_accurate": "GELUTanh", "gelu_fast": "GELUTanh", "tanh": "Tanh"}
NORMS = (NormPosition("", before=True), NormPosition("", after=True))

# The facts come from the model's stacks and tensors; norms, relative positions, activation and widths have rules below.
SUPPORT = Support(
    frozenset(
        [f"{stack}_{name}" for stack in STACKS for name in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")]
        + [f"{stack}_{name}" for stack in STACKS for name in ("normalize_before", "learned_pos", "skip")]
        + [f"{stack}_{name}" for stack in STACKS for name in ("layers_to_keep", "norm", "max_relative_length")]
        + ["max_source_positions", "max_target_positions", "layernorm_embedding", "no_scale_embedding"]
        + ["share_decoder_input_output_embed", "share_all_embeddings", "no_token_positional_embeddings"]
        + ["no_decoder_final_norm", "relative_positions", "residual_scale", "skip_schedule", "skip_scale"]
        + ["activation_fn", "decoder_input_dim", "decoder_output_dim"]
    ),
    only={"encoder_groups": "none", "decoder_groups": "none"},
)


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
    yield from SUPPORT.faults(config, {"onnx": onnx})
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
            yield f"{given(name, getattr(config, name))}: use --engine onnx"
