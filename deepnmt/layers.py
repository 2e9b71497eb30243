"""The layers of the stacks: fairseq's own, whose self-attention may have relative positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairseq.distributed import fsdp_wrap
from fairseq.modules import MultiheadAttention
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import nn

from deepnmt.relative_position import RelativePositionOptions, RelativeSelfAttention


class DeepEncoderLayer(TransformerEncoderLayerBase):  # type: ignore[misc]
    """fairseq's encoder layer with the self-attention that the options ask for."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        # fairseq 0.12.2 has a fused path that takes B x T x C and knows no relative positions.
        self.can_use_fastpath = False

    def build_self_attention(self, embed_dim: int, cfg: Any) -> MultiheadAttention:
        """Called by fairseq's constructor."""
        options: RelativePositionOptions = cfg.deep.positions("encoder")
        if not options.max_length:
            return super().build_self_attention(embed_dim, cfg)
        return RelativeSelfAttention(
            embed_dim,
            cfg.encoder.attention_heads,
            options,
            dropout=cfg.attention_dropout,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )


class DeepDecoderLayer(TransformerDecoderLayerBase):  # type: ignore[misc]
    """fairseq's decoder layer with the self-attention that the options ask for."""

    def build_self_attention(
        self, embed_dim: int, cfg: Any, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> MultiheadAttention:
        """Called by fairseq's constructor."""
        options: RelativePositionOptions = cfg.deep.positions("decoder")
        if not options.max_length:
            return super().build_self_attention(embed_dim, cfg, add_bias_kv, add_zero_attn)
        return RelativeSelfAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            options,
            dropout=cfg.attention_dropout,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )


def wrap_layer(layer: nn.Module, cfg: Any) -> nn.Module:
    """Activation checkpointing and full sharding, as fairseq applies them to its own layers."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    wrapped: nn.Module = fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)
    return wrapped


def kept_layers(layers: nn.ModuleList) -> Iterator[tuple[int, nn.Module]]:
    """The layers to run, with their numbers from 0; in training, fairseq's list leaves out those LayerDrop drops."""
    number = {id(layer): index for index, layer in enumerate(layers.children())}
    for layer in layers:
        yield number[id(layer)], layer
