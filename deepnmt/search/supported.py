"""Which models the package's beam search knows: Transformers whose attention is one of those in `attention.py`."""

from __future__ import annotations

from typing import Any

from fairseq.models.transformer import TransformerDecoder, TransformerDecoderBase, TransformerModelBase
from fairseq.modules import FairseqDropout
from fairseq.modules.transformer_layer import TransformerDecoderLayer, TransformerDecoderLayerBase
from torch import nn

from deepnmt.model.decoder import DeepDecoder
from deepnmt.model.layers import DeepDecoderLayer
from deepnmt.search.incremental.layer_steps import SELF_ATTENTION, SOURCE_ATTENTION

DECODERS = (TransformerDecoderBase, TransformerDecoder, DeepDecoder)
LAYERS = (TransformerDecoderLayerBase, TransformerDecoderLayer, DeepDecoderLayer)
# Of fairseq's layers, additions that are rarely used; absent or None where they are not.
ADDITIONS = ("attn_ln", "ffn_layernorm", "w_resid", "c_attn")


def supported(model: Any) -> bool:
    """Whether the search computes what the model's own incremental decoding does."""
    decoder: Any = getattr(model, "decoder", None)
    return (
        isinstance(model, TransformerModelBase)
        and not model.training
        and type(decoder) in DECODERS
        and not decoder.cross_self_attention
        and all(_supported_layer(layer) for layer in decoder.layers)
        # Dropout in inference draws anew for each hypothesis.
        and not any(module.apply_during_inference for module in decoder.modules() if isinstance(module, FairseqDropout))
    )


def _supported_layer(layer: Any) -> bool:
    return (
        type(layer) in LAYERS
        and all(getattr(layer, name, None) is None for name in ADDITIONS)
        and type(layer.fc1) is type(layer.fc2) is nn.Linear
        and (layer.self_attn is None or _supported_attention(layer.self_attn, SELF_ATTENTION))
        and (layer.encoder_attn is None or _supported_attention(layer.encoder_attn, SOURCE_ATTENTION))
    )


def _supported_attention(module: Any, kinds: Any) -> bool:
    projections = (module.q_proj, module.k_proj, module.v_proj, module.out_proj)
    return (
        type(module) in kinds
        and all(type(projection) is nn.Linear for projection in projections)
        and module.bias_k is None
        and not module.add_zero_attn
        and not getattr(module, "use_xformers", False)
    )
