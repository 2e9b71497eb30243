"""The decoder: fairseq's, with a history between its layers.

Shapes: T x B x C is time, batch, channel.
"""
# Twin: deepnmt/search/incremental/decoder_steps.py computes this for one position in a search; change both.
# Twin: deepnmt/engines/onnx/graphs.py computes it in ONNX Runtime; change this too.

from typing import Any, Optional

import torch
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from deepnmt.kernels.word_dropout import dropped_target, without
from deepnmt.model.build import build_history, build_skipping
from deepnmt.model.config import NestedConfig
from deepnmt.model.layer_list import deep_layers, kept_layers
from deepnmt.model.layers import DeepDecoderLayer, DeepLayer
from deepnmt.model.shared_attention import SharedHeads, share_attention
from deepnmt.model.shared_layers import share_layers
from deepnmt.model.sublayers import BACKWARD
from deepnmt.model.transparent import part_of

IncrementalState = Optional[dict[str, dict[str, Optional[Tensor]]]]
# Of what an encoder's output may have besides: the positions of the decoder's input, B x T, from 0.
PLACES = "target_places"
# The name of a position's state, before its number.
POSITION = "position "


class DeepDecoder(TransformerDecoderBase):  # type: ignore[misc]
    """Parameters are named as in fairseq's decoder; `history` is added to them unless the layers form a plain chain.

    The lowest `lm_layers` have no cross-attention. `embed_tokens` is the embedding table, V x C; with `no_encoder_attn`
    no layer has cross-attention.
    """

    built = 0  # layers, from the lowest up

    def __init__(
        self, cfg: NestedConfig, dictionary: Any, embed_tokens: nn.Embedding, no_encoder_attn: bool = False
    ) -> None:
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=no_encoder_attn)
        self.lm_layers = int(cfg.deep.decoder_lm_layers)
        self.shares_attention = cfg.deep.shares_attention
        if self.shares_attention:
            share_attention(self.deep_layers(), cfg.deep.stack("decoder").leaders, cfg.deep.shared_cross_attention)
        pattern = cfg.deep.stack("decoder").pattern
        self.repeats = len(set(pattern)) < len(pattern)
        share_layers(self.layers, pattern)
        self.history = build_history(cfg.deep, "decoder")
        self.skipping = build_skipping(cfg.deep, "decoder")
        self.word_dropout = cfg.deep.decoder_word_dropout
        self.sums = cfg.deep.sums

    def deep_layers(self) -> list[DeepLayer]:
        """Return the layers in their order; see `layer_list.deep_layers`."""
        return deep_layers(self.layers)

    def build_decoder_layer(self, cfg: NestedConfig, no_encoder_attn: bool = False) -> nn.Module:
        """Return a new layer; called by fairseq's constructor."""
        self.built += 1
        return DeepDecoderLayer(cfg, no_encoder_attn or self.built <= cfg.deep.decoder_lm_layers)

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> dict[str, Tensor]:
        """Bring a state dict of an earlier fairseq up to date, as fairseq's decoder does."""
        super().upgrade_state_dict_named(state_dict, name)
        # fairseq adds it where embeddings are shared, but adaptive softmax lacks it.
        if self.output_projection is None:
            state_dict.pop(f"{name}.output_projection.weight", None)
        return state_dict

    def extract_features_scriptable(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[dict[str, list[Tensor]]],
        incremental_state: Optional[dict[str, dict[str, Optional[Tensor]]]] = None,
        full_context_alignment: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
    ) -> tuple[Tensor, dict[str, list[Optional[Tensor]]]]:
        """Return features, B x T x C, with cross-attention and states, for tokens, B x T; arguments are fairseq's."""
        if alignment_layer is None:
            alignment_layer = self.num_layers - 1
        source = source_padding = None
        if encoder_out is not None:
            source = next(iter(encoder_out["encoder_out"]), None)
            source_padding = next(iter(encoder_out["encoder_padding_mask"]), None)
        more: dict[str, Any] = {name: (encoder_out or {}).get(name, [None])[0] for name in BACKWARD}
        more["shared"] = SharedHeads() if self.shares_attention else None

        places = next(iter((encoder_out or {}).get(PLACES, [])), None)
        x, padding = self._embed(prev_output_tokens, incremental_state, places)
        mask = None
        if incremental_state is None and not full_context_alignment:
            mask = self.buffered_future_mask(x)

        attention: Optional[Tensor] = None
        states: list[Optional[Tensor]] = [x]
        past = self.history.start() if self.history is not None else None
        factors = self.skipping.draw() if self.skipping is not None else None
        for index, layer in kept_layers(self.layers):
            if past is not None:
                x = past.input(index, x)
            x, layer_attention, _ = layer(
                x,
                None if source is None else part_of(source, index, self.sums),
                source_padding,
                self._state_of(index, incremental_state),
                self_attn_mask=mask,
                self_attn_padding_mask=padding,
                need_attn=index == alignment_layer,
                need_head_weights=index == alignment_layer,
                factors=None if factors is None else factors[index],
                **more,
            )
            states.append(x)
            if layer_attention is not None and index == alignment_layer:
                # H x B x T x S, averaged over (the first of) the heads
                attention = layer_attention.float().to(x)[:alignment_heads].mean(dim=0)
        if past is not None:
            x = past.finish(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = x.transpose(0, 1)  # T x B x C -> B x T x C
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        return x, {"attn": [attention], "inner_states": states}

    def language_model(self, prev_output_tokens: Tensor) -> Tensor:
        """Return the features of the lowest layers, B x T x C, for tokens, B x T: a language model of the target.

        The decoder's output layer projects them. They are normalised without parameters where layers end without norm.
        """
        x, padding = self._embed(prev_output_tokens, None)
        mask = self.buffered_future_mask(x)
        past = self.history.start() if self.history is not None else None
        for index, layer in kept_layers(self.layers):
            if index >= self.lm_layers:
                break
            if past is not None:
                x = past.input(index, x)
            x = layer(x, self_attn_mask=mask, self_attn_padding_mask=padding)[0]
        if self.deep_layers()[0].norm_position.before:
            x = torch.nn.functional.layer_norm(x, x.shape[-1:])
        x = x.transpose(0, 1)  # T x B x C -> B x T x C
        return x if self.project_out_dim is None else self.project_out_dim(x)

    def _state_of(self, index: int, incremental_state: IncrementalState) -> IncrementalState:
        """Return the incremental state of a position: a layer in several places has one for each."""
        if incremental_state is None or not self.repeats:
            return incremental_state
        return incremental_state.setdefault(f"{POSITION}{index}", {})  # type: ignore[return-value]

    def reorder_incremental_state_scripting(self, incremental_state: dict[str, Any], new_order: Tensor) -> None:
        """Let entry `new_order[i]` of the batch become entry i; called by fairseq's search."""
        positions = [state for name, state in incremental_state.items() if name.startswith(POSITION)]
        for state in (incremental_state, *positions):
            super().reorder_incremental_state_scripting(state, new_order)

    def _embed(
        self,
        tokens: Tensor,
        incremental_state: Optional[dict[str, dict[str, Optional[Tensor]]]],
        places: Optional[Tensor] = None,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Return embedding, T x B x C, and padding of tokens, B x T; incremental decoding embeds only the newest.

        Tokens have the positions `places`, B x T, or by default those from the first one on.
        """
        positions = None
        if self.embed_positions is not None and places is not None:
            every = places.new_full((1, int(places.max()) + 1), self.padding_idx + 1)
            positions = self.embed_positions(every)[0][places]
        elif self.embed_positions is not None:
            positions = self.embed_positions(tokens, incremental_state=incremental_state)
        if incremental_state is not None:
            tokens = tokens[:, -1:]
            positions = positions[:, -1:] if positions is not None else None
        embedding = self.embed_tokens(tokens.contiguous())
        if self.training and self.word_dropout:
            embedding = without(embedding, dropped_target(tokens, self.word_dropout, self.padding_idx))
        x = self.embed_scale * embedding
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        if positions is not None:
            x = x + positions
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x)
        padding = tokens.eq(self.padding_idx)
        return x.transpose(0, 1), padding if self.cross_self_attention or bool(padding.any()) else None
