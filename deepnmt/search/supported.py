"""Cases that the package's beam search leaves to fairseq's."""

from typing import Any, Optional

from fairseq import search
from fairseq.models import FairseqLanguageModel
from fairseq.models.transformer import TransformerDecoder, TransformerDecoderBase, TransformerModelBase
from fairseq.modules import FairseqDropout, MultiheadAttention
from fairseq.modules.transformer_layer import TransformerDecoderLayer, TransformerDecoderLayerBase
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from deepnmt.errors import UserError
from deepnmt.model.attention import Attention
from deepnmt.model.decoder import DeepDecoder
from deepnmt.model.layers import DeepDecoderLayer
from deepnmt.model.merged_attention import MergedAttention
from deepnmt.model.relative_position import RelativeSelfAttention
from deepnmt.model.shared_attention import (
    FollowingSelfAttention,
    FollowingSourceAttention,
    LeadingSelfAttention,
    LeadingSourceAttention,
)
from deepnmt.model.sublayers import BACKWARD_ATTENTION
from deepnmt.search.incremental.recurrent_steps import RECURRENT_STEPS

DECODERS = (TransformerDecoderBase, TransformerDecoder, DeepDecoder)
LAYERS = (TransformerDecoderLayerBase, TransformerDecoderLayer, DeepDecoderLayer)
SELF_ATTENTION = (MultiheadAttention, Attention, RelativeSelfAttention, LeadingSelfAttention)
SOURCE_ATTENTION = (MultiheadAttention, Attention, LeadingSourceAttention)
# Their maps are their only modules, apart from dropout.
OF_MAPS = (*RECURRENT_STEPS, FollowingSelfAttention, FollowingSourceAttention)
# Rarely used additions to fairseq's layers; absent or None where they are not used.
ADDITIONS = ("attn_ln", "ffn_layernorm", "w_resid", "c_attn")


def generator_obstacle(generator: SequenceGenerator) -> Optional[str]:
    """Return the option of a generator that the search does not support, or None."""
    # fairseq's search for --match-source-len has no other use.
    plain = search.LengthConstrainedBeamSearch if generator.match_source_len else search.BeamSearch
    if getattr(generator, "draws", False):
        plain = search.Sampling
    if type(generator.search) is not plain:
        return f"{type(generator.search).__name__} is not plain beam search"
    return None if generator.lm_model is None else language_model_obstacle(generator.lm_model)


def model_obstacle(model: Any) -> Optional[str]:
    """Return why the search cannot replace the model's own incremental decoding, or None."""
    decoder: Any = getattr(model, "decoder", None)
    if not isinstance(model, TransformerModelBase) or type(decoder) not in DECODERS:
        return "the model is not a Transformer of fairseq or of this package"
    return "the model is being trained" if model.training else _decoder_obstacle(decoder)


def shortlist_obstacle(model: Any) -> Optional[str]:
    """Return why a model cannot have shortlists, or None."""
    projection = getattr(getattr(model, "decoder", None), "output_projection", None)
    if type(projection) is not nn.Linear or projection.bias is not None:
        return "the output layer is not a linear map without bias"
    return model_obstacle(model)


def check_shortlist(model: Any) -> None:
    """Raise `UserError` for a model that cannot have shortlists."""
    if reason := shortlist_obstacle(model):
        raise UserError(f"--shortlist cannot be used: {reason}")


def language_model_obstacle(model: Any) -> Optional[str]:
    """Return why the search cannot use a language model, or None."""
    decoder: Any = getattr(model, "decoder", None)
    if not isinstance(model, FairseqLanguageModel) or type(decoder) not in DECODERS:
        return "the language model is not fairseq's transformer_lm"
    if not isinstance(decoder.embed_tokens, nn.Embedding):
        return "the language model's embeddings are not a table"
    return _decoder_obstacle(decoder)


def _decoder_obstacle(decoder: Any) -> Optional[str]:
    if decoder.cross_self_attention:
        return "the decoder has cross-self-attention"
    if any(module.apply_during_inference for module in decoder.modules() if isinstance(module, FairseqDropout)):
        return "dropout in inference is different for each hypothesis"
    obstacles = (_layer_obstacle(layer) for layer in decoder.layers)
    return next((obstacle for obstacle in obstacles if obstacle is not None), None)


def _layer_obstacle(layer: Any) -> Optional[str]:
    if type(layer) not in LAYERS or any(getattr(layer, name, None) is not None for name in ADDITIONS):
        return "a decoder layer is not fairseq's or this package's"
    if not type(layer.fc1) is type(layer.fc2) is nn.Linear:
        return "a feed-forward sublayer has other maps than linear ones"
    second = getattr(layer, BACKWARD_ATTENTION, None)
    # Merged attention takes the place of both.
    of_source = (MergedAttention,) if layer.self_attn is None else SOURCE_ATTENTION
    known = ((layer.self_attn, SELF_ATTENTION), (layer.encoder_attn, of_source), (second, SOURCE_ATTENTION))
    for attention, kinds in known:
        if attention is not None and not _is_known_attention(attention, kinds):
            return "an attention is not fairseq's or this package's"
    return None


def _is_known_attention(module: Any, kinds: Any) -> bool:
    if type(module) in OF_MAPS:
        return all(type(child) is nn.Linear for child in module.children() if not isinstance(child, FairseqDropout))
    projections = (module.q_proj, module.k_proj, module.v_proj, module.out_proj)
    return (
        type(module) in kinds
        and all(type(projection) is nn.Linear for projection in projections)
        and module.bias_k is None
        and not module.add_zero_attn
        and not getattr(module, "use_xformers", False)
    )
