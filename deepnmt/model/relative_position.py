"""Relative position representations (Shaw 2018, NAACL, arXiv 1803.02155).

    e_ij = q_i . (k_j + aK[clip(j-i, -r, r)]) / sqrt(D)
    o_i  = sum_j softmax(e)_ij (v_j + aV[clip(j-i, -r, r)])                                  (7)

Shapes: T x B x C is time, batch, channel; H heads of D channels; T queries, S keys, R = 2r + 1 distances.
`relative_scores.py` computes it.
"""
# Twin: deepnmt/search/incremental/attention_steps.py computes this for one position in a search; change both.
# Twin: deepnmt/engines/onnx/attention.py computes it in ONNX Runtime; change this too.

from typing import Any, Optional

import torch
from torch import Tensor, nn

from deepnmt.kernels.hidden_keys import seen_keys
from deepnmt.model.attention import NamedAttention
from deepnmt.model.relative_scores import RelativePositionOptions, attend


class RelativeSelfAttention(NamedAttention):
    """Multi-head self-attention by (7); aK and aV are shared by the heads and belong to this module alone.

    Parameters, projections, dropout and the incremental state are the same as in fairseq's own attention. There are no
    vectors if the greatest distance is 0.
    """

    def __init__(self, embed_dim: int, num_heads: int, options: RelativePositionOptions, **kwargs: Any) -> None:
        super().__init__(embed_dim, num_heads, self_attention=True, **kwargs)
        self.max_length = options.max_length
        distances = 2 * options.max_length + 1
        self.relative_keys = self.relative_values = None
        if not options.max_length:
            return
        self.relative_keys = nn.Parameter(torch.empty(distances, self.head_dim))
        nn.init.xavier_uniform_(self.relative_keys)
        if options.values:
            self.relative_values = nn.Parameter(torch.empty(distances, self.head_dim))
            nn.init.xavier_uniform_(self.relative_values)

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor],
        value: Optional[Tensor],
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[dict[str, dict[str, Optional[Tensor]]]] = None,
        need_weights: bool = True,
        attn_mask: Optional[Tensor] = None,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Attend within `query`; `key` and `value` must be the same tensor and exist only for fairseq's call.

        Args:
            query: T x B x C
            key_padding_mask: B x S, true or one at padding
            incremental_state: holds earlier keys and values; `query` is then the newest step
            need_weights: also return the probabilities, B x T x S, averaged over the heads
            attn_mask: T x S, added to the scores
            need_head_weights: return them for each head, H x B x T x S

        Returns:
            T x B x C, and the probabilities or None
        """
        if key is not query or value is not query:
            raise ValueError("relative positions are for self-attention: key and value must be the query")
        length, batch, _ = query.shape
        q = self._split_heads(self.q_proj(query) * self.scaling)
        k = self._split_heads(self.k_proj(query))
        v = self._split_heads(self.v_proj(query))
        if incremental_state is not None:
            k, v, key_padding_mask = self._append_to_state(incremental_state, k, v, key_padding_mask)

        mask = attn_mask
        if key_padding_mask is not None:
            mask = seen_keys(key_padding_mask, attn_mask, q.dtype)[:, None]
        vectors = self.relative_keys, self.relative_values
        attended, weights = attend(q, k, v, vectors, mask, self.dropout_module)
        # B x H x T x D -> T x B x C
        attended = attended.permute(2, 0, 1, 3).reshape(length, batch, self.embed_dim)
        if need_head_weights:
            return self.out_proj(attended), weights.transpose(0, 1)
        return self.out_proj(attended), weights.mean(dim=1) if need_weights else None

    def _split_heads(self, x: Tensor) -> Tensor:
        """T x B x C -> B x H x T x D."""
        length, batch, _ = x.shape
        return x.view(length, batch, self.num_heads, self.head_dim).permute(1, 2, 0, 3)

    def _append_to_state(
        self,
        incremental_state: dict[str, dict[str, Optional[Tensor]]],
        k: Tensor,
        v: Tensor,
        key_padding_mask: Optional[Tensor],
    ) -> tuple[Tensor, Tensor, Optional[Tensor]]:
        saved = self._get_input_buffer(incremental_state)
        if saved.get("prev_key") is not None:
            k = torch.cat([saved["prev_key"], k], dim=2)
            v = torch.cat([saved["prev_value"], v], dim=2)
        key_padding_mask = self._append_prev_key_padding_mask(
            key_padding_mask=key_padding_mask,
            prev_key_padding_mask=saved.get("prev_key_padding_mask"),
            batch_size=k.size(0),
            src_len=k.size(2),
            static_kv=False,
        )
        new = {"prev_key": k, "prev_value": v, "prev_key_padding_mask": key_padding_mask}
        self._set_input_buffer(incremental_state, new)
        return k, v, key_padding_mask
