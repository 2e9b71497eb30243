"""The encoder: fairseq's, with a history between its layers.

Shapes: T x B x C is time, batch, channel.
"""
# Twin: deepnmt/engines/onnx/graphs.py computes this in ONNX Runtime; change both.

from typing import Any, Optional

import torch
from fairseq.models.transformer import TransformerEncoderBase
from torch import Tensor, nn

from deepnmt.kernels.word_dropout import dropped_source, without
from deepnmt.model.build import build_history, build_skipping
from deepnmt.model.config import NestedConfig
from deepnmt.model.layer_list import deep_layers, kept_layers
from deepnmt.model.layers import DeepEncoderLayer, DeepLayer
from deepnmt.model.shared_layers import share_layers
from deepnmt.model.sublayers import BACKWARD, BACKWARD_PADDING, BACKWARD_STATES
from deepnmt.model.transparent import side_by_side


class DeepEncoder(TransformerEncoderBase):  # type: ignore[misc]
    """Parameters are named as in fairseq's encoder; `history` is added to them unless the layers form a plain chain.

    `embed_tokens` is the embedding table, V x C, or one in bands (`banded_embedding.py`).
    """

    def __init__(self, cfg: NestedConfig, dictionary: Any, embed_tokens: nn.Module) -> None:
        super().__init__(cfg, dictionary, embed_tokens)
        share_layers(self.layers, cfg.deep.stack("encoder").pattern)
        self.history = build_history(cfg.deep, "encoder")
        self.skipping = build_skipping(cfg.deep, "encoder")
        self.word_dropout = cfg.deep.encoder_word_dropout
        # A trained encoder beside this one; `add_frozen_encoder` sets it.
        self.frozen: Optional[DeepEncoder] = None

    def train(self, mode: bool = True) -> "DeepEncoder":
        """Switch to training mode, except for the frozen encoder."""
        super().train(mode)
        if self.frozen is not None:
            self.frozen.eval()
        return self

    def reorder_encoder_out(self, encoder_out: dict[str, list[Tensor]], new_order: Tensor) -> dict[str, list[Tensor]]:
        """Return the sentences of a batch in a new order, some of them perhaps several times."""
        found: dict[str, list[Tensor]] = super().reorder_encoder_out(encoder_out, new_order)
        for name, axis in zip(BACKWARD, (1, 0)):
            if name in encoder_out:
                found[name] = [tensor.index_select(axis, new_order) for tensor in encoder_out[name]]
        return found

    def deep_layers(self) -> list[DeepLayer]:
        """Return the layers in their order; see `layer_list.deep_layers`."""
        return deep_layers(self.layers)

    def build_encoder_layer(self, cfg: NestedConfig) -> nn.Module:
        """Return a new layer; called by fairseq's constructor."""
        return DeepEncoderLayer(cfg)

    def forward_scriptable(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
        token_embeddings: Optional[Tensor] = None,
    ) -> dict[str, list[Tensor]]:
        """Return `encoder_out`, T x B x C, masks and, on request, all states, for tokens, B x T.

        With R sums of `transparent.py`, `encoder_out` is T x B x RC.
        """
        padding = src_tokens.eq(self.padding_idx)
        any_padding = bool(padding.any())
        if self.training and self.word_dropout:
            if token_embeddings is None:
                token_embeddings = self.embed_tokens(src_tokens)
            dropped = dropped_source(src_tokens, self.word_dropout, self.padding_idx)
            token_embeddings = without(token_embeddings, dropped)
        x, embedding = self.forward_embedding(src_tokens, token_embeddings)
        if any_padding:
            x = x * (1 - padding.unsqueeze(-1).type_as(x))
        x = x.transpose(0, 1)  # B x T x C -> T x B x C

        beside: dict[str, Tensor] = {}
        if self.frozen is not None:
            with torch.no_grad():
                beside["beside"] = self.frozen(src_tokens)["encoder_out"][0]

        states = [x] if return_all_hiddens else []
        past = self.history.start() if self.history is not None else None
        factors = self.skipping.draw() if self.skipping is not None else None
        for index, layer in kept_layers(self.layers):
            if past is not None:
                x = past.input(index, x)
            x = layer(
                x,
                encoder_padding_mask=padding if any_padding else None,
                factors=None if factors is None else factors[index],
                **beside,
            )
            if return_all_hiddens:
                states.append(x)
        if past is not None:
            x = past.finish(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)

        lengths = src_tokens.ne(self.padding_idx).sum(dim=1, dtype=torch.int32).reshape(-1, 1)
        frozen = {BACKWARD_STATES: [*beside.values()], BACKWARD_PADDING: [padding]} if beside else {}
        return {
            **frozen,
            "encoder_out": [side_by_side(x)],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [embedding],
            "encoder_states": states,
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [lengths],
        }
