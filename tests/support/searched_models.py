"""Every kind of model that the beam search computes itself, for the tests that compare it with another search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from support.models import PLAIN, PRE_NORM, SIZE, batch, dictionary, scramble, task

FEW, MANY = dictionary(20), dictionary(300)
SENTENCES = [[5, 6, 7, 8, 9, 10, 11], [12, 13], [14, 15, 16, 5], [6], [7, 19, 20], [21, 22, 5, 5, 6]]
MODELS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm": PRE_NORM,
    "plain": {**PRE_NORM, **PLAIN},
    "no norm": {"encoder_norm": "none", "decoder_norm": "none"},
    "b2t": {"encoder_norm": "b2t", "decoder_norm": "b2t", **PLAIN},
    "groups": {**PRE_NORM, "decoder_groups": "2"},
    "boundaries": {**PRE_NORM, "decoder_groups": "0,1,3"},
    "transparent": {**PRE_NORM, "encoder_groups": "transparent"},
    "top, two-sided": {"encoder_groups": "top", "two_sided": True},
    "vector": {**PRE_NORM, "dlcl_granularity": "vector"},
    "slices": {"dlcl_granularity": "4"},
    "softmax, window": {**PRE_NORM, "dlcl_softmax": True, "dlcl_window": 2},
    "norm of the embedding": {"dlcl_embedding_norm": True},
    "relative positions": {**PRE_NORM, "encoder_max_relative_length": 2, "decoder_max_relative_length": 3},
    "relative keys": {"decoder_max_relative_length": 3, "relative_positions": "keys"},
    "deepnorm": {**PLAIN, "residual_scale": "deepnorm", "initializer": "deepnorm"},
    "admin": {**PLAIN, "residual_scale": "admin"},
    "merged attention": {**PRE_NORM, "merged_attention": True},
    "merged, post-norm": {"merged_attention": True},
    "shared layers": {"decoder_share_layers": "0,0,1", "encoder_share_layers": "0,1,0"},
    "shared": {"decoder_self_attention": "shared"},
    "shared, cross": {
        **{**PRE_NORM, "decoder_self_attention": "shared"},
        **{"shared_attention_blocks": "0,1,3", "shared_cross_attention": True},
    },
    "average": {"decoder_self_attention": "average"},
    "average, FFN": {**PRE_NORM, "decoder_self_attention": "average", "average_attention_ffn": True},
    "ssru": {**PRE_NORM, "decoder_self_attention": "ssru"},
    "ssru, two-sided": {"decoder_self_attention": "ssru", "two_sided": True},
    "skipping": {**PRE_NORM, "decoder_skip": 0.5, "skip_scale": "inference"},
    "no cross-attention": {"no_cross_attention": True},
    "no positions": {"no_token_positional_embeddings": True},
    "learned positions": {"decoder_learned_pos": True},
    "norm of embeddings": {"layernorm_embedding": True},
    "other activation": {"activation_fn": "gelu"},
    "other widths": {"decoder_input_dim": 12, "decoder_output_dim": 20},
    "adaptive softmax": {"adaptive_softmax_cutoff": "8,16"},
    "shared embeddings": {"share_all_embeddings": True},
    "two-sided": {**PRE_NORM, "two_sided": True},
    "two-sided, merged": {"two_sided": True, "merged_attention": True, "decoder_output_dim": 20},
}


def model(options: dict[str, Any], words: Any = FEW, seed: int = 1) -> DLCLTransformerModel:
    """Random, with probabilities that differ enough for hypotheses to end at different lengths; float32."""
    torch.manual_seed(seed)
    config = DLCLTransformerConfig(**{**SIZE, "dropout": 0.0, **options})
    result = DLCLTransformerModel.build_model(config, task(words))
    scramble(result)
    if result.decoder.output_projection is not None:
        with torch.no_grad():
            result.decoder.output_projection.weight[FEW.eos()].mul_(2)
    return result.eval()


def sample(sentences: Sequence[list[int]] = SENTENCES) -> dict[str, Any]:
    inputs = batch(list(sentences), [[5]] * len(sentences))
    del inputs["prev_output_tokens"]
    return {"net_input": inputs}
