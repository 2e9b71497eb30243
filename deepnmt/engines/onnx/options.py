"""The models that the graphs can express."""

from collections.abc import Iterator
from typing import Any

from fairseq.models.transformer import TransformerEncoder, TransformerEncoderBase, TransformerModelBase
from fairseq.modules.transformer_layer import TransformerEncoderLayer, TransformerEncoderLayerBase
from torch import nn

from deepnmt.engines.support import Support
from deepnmt.errors import UserError
from deepnmt.model.encoder import DeepEncoder
from deepnmt.model.layers import DeepEncoderLayer
from deepnmt.model.stack import STACKS
from deepnmt.search.supported import ADDITIONS, model_obstacle

# Most of them are computed by looking at the model's modules.
SUPPORT = Support(
    frozenset(
        {
            *(
                f"{stack}_{name}"
                for stack in STACKS
                for name in (
                    *("embed_dim", "ffn_embed_dim", "layers", "attention_heads", "normalize_before", "learned_pos"),
                    *("layers_to_keep", "groups", "max_relative_length", "norm", "skip"),
                )
            ),
            *(
                "activation_fn",
                "max_source_positions",
                "max_target_positions",
                "decoder_input_dim",
                "decoder_output_dim",
            ),
            *("share_decoder_input_output_embed", "share_all_embeddings", "merge_src_tgt_embed", "no_scale_embedding"),
            *("no_token_positional_embeddings", "layernorm_embedding", "no_cross_attention", "no_decoder_final_norm"),
            *("dlcl_granularity", "dlcl_window", "dlcl_softmax", "dlcl_embedding_norm", "relative_positions"),
            *("residual_scale", "merged_attention", "decoder_self_attention", "average_attention_ffn"),
            *("shared_attention_blocks", "shared_cross_attention"),
            *("skip_schedule", "skip_scale", "quant_noise_pq"),
        }
    )
)
ENCODERS = (TransformerEncoderBase, TransformerEncoder, DeepEncoder)
ENCODER_LAYERS = (TransformerEncoderLayerBase, TransformerEncoderLayer, DeepEncoderLayer)


def check(model: Any, options: Any) -> None:
    """Raise `UserError` for a model that the graphs cannot express, a line a fault, with an engine that can."""
    # Others lack the options.
    faults = list(_option_faults(options)) if isinstance(model, TransformerModelBase) else []
    if not faults and (obstacle := model_obstacle(model) or encoder_obstacle(model.encoder)):
        faults.append(f"{obstacle}: use --engine torch")
    if faults:
        raise UserError(*faults)


def _option_faults(options: Any) -> Iterator[str]:
    # here, since other engines ask for SUPPORT where onnx is not installed
    from deepnmt.engines.onnx.layers import ACTIVATIONS

    yield from SUPPORT.faults(options, {})
    if str(options.activation_fn) not in ACTIVATIONS:
        yield f"--activation-fn {options.activation_fn}: use --engine torch"


def encoder_obstacle(encoder: Any) -> str | None:
    """Return why the graph of the encoder cannot be written, or None; `model_obstacle` knows the decoder's."""
    if type(encoder) not in ENCODERS:
        return "the encoder is not fairseq's or this package's"
    for layer in encoder.layers:
        if type(layer) not in ENCODER_LAYERS or any(getattr(layer, name, None) is not None for name in ADDITIONS):
            return "an encoder layer is not fairseq's or this package's"
        if any(type(linear) is not nn.Linear for linear in (layer.fc1, layer.fc2, layer.self_attn.q_proj)):
            return "an encoder layer has other maps than linear ones"
    return None
