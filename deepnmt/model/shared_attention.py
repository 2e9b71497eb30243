"""Shared attention weights (Xiao 2019, IJCAI, arXiv 1906.11024): the layers of a block attend as its first one does.

    first layer of a block    S = softmax(e),  A = concat_heads(softmax(e') V')
    layer l above it          self-attention   concat_heads(S_h (x W_v^l)_h) W_o^l                     (47)
                              cross-attention  A W_o^l,  with --shared-cross-attention

S is of the self-attention, A of the cross-attention. e and e' are the scores of usual attention; V' are the source's
values. A layer above the first has no parameters but W_v and W_o, and with --shared-cross-attention W_o alone in
its cross-attention.

Shapes: T x B x C is time, batch, channel; H heads of D channels; P positions so far; S source positions.
"""

# Twin: deepnmt/search/incremental/shared_steps.py computes this for one position in a search; change both.
# Twin: deepnmt/engines/onnx/shared.py computes it in ONNX Runtime; change this too.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import Tensor, nn

from deepnmt.model.heads_attention import HeadsAttention
from deepnmt.model.relative_position import RelativeSelfAttention
from deepnmt.model.relative_scores import RelativePositionOptions
from deepnmt.model.row_state import IncrementalState, RowState


@dataclass
class SharedHeads:
    """The results that the first layer of a block leaves to the others, in one forward pass.

    Attributes:
        weights: S before dropout, B x H x T x P
        attended: A, T x B x C
        source_weights: the probabilities behind A, B x H x T x S
    """

    weights: Optional[Tensor] = None
    attended: Optional[Tensor] = None
    source_weights: Optional[Tensor] = None


class LeadingSelfAttention(RelativeSelfAttention):
    """The self-attention of the first layer of a block: usual attention that leaves S."""

    def __init__(self, embed_dim: int, num_heads: int, **kwargs: Any) -> None:
        super().__init__(embed_dim, num_heads, RelativePositionOptions(), **kwargs)

    def forward(  # type: ignore[override]
        self, *args: Any, shared: SharedHeads, **kwargs: Any
    ) -> tuple[Tensor, Optional[Tensor]]:
        """As `RelativeSelfAttention.forward`."""
        attended, weights = super().forward(*args, **{**kwargs, "need_head_weights": True})
        assert weights is not None
        shared.weights = weights.transpose(0, 1)
        return attended, None


class FollowingSelfAttention(RowState):
    """The self-attention of another layer of a block, made of the projections of a usual one.

    The incremental state holds the values so far.
    """

    follows = True

    def __init__(self, usual: Any) -> None:
        super().__init__()
        self.num_heads, self.head_dim = usual.num_heads, usual.head_dim
        self.v_proj, self.out_proj, self.dropout_module = usual.v_proj, usual.out_proj, usual.dropout_module

    def forward(
        self, query: Tensor, shared: SharedHeads, incremental_state: IncrementalState = None, **_: Any
    ) -> tuple[Tensor, None]:
        """Return the function of (47), T x B x C, for x, T x B x C; fairseq's call has more arguments."""
        length, batch, channels = query.shape
        values = self.v_proj(query).transpose(0, 1)  # B x T x C
        if incremental_state is not None:
            if (before := self.saved(incremental_state).get("values")) is not None:
                values = torch.cat([before, values], dim=1)
            self.save(incremental_state, values=values)
        assert shared.weights is not None
        weights = self.dropout_module(shared.weights.type_as(values))
        heads = values.view(batch, -1, self.num_heads, self.head_dim).transpose(1, 2)
        attended = torch.matmul(weights, heads)  # B x H x T x D
        return self.out_proj(attended.permute(2, 0, 1, 3).reshape(length, batch, channels)), None


class LeadingSourceAttention(HeadsAttention):
    """The cross-attention of the first layer of a block: usual attention that leaves A."""

    leads = True

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor],
        value: Optional[Tensor],
        shared: SharedHeads,
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[dict[str, Any]] = None,
        static_kv: bool = True,
        need_weights: bool = True,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """As fairseq's cross-attention."""
        shared.attended, shared.source_weights = self.heads(query, key, key_padding_mask, incremental_state)
        return self.out_proj(shared.attended), asked(shared.source_weights, need_weights, need_head_weights)


class FollowingSourceAttention(nn.Module):
    """The cross-attention of another layer of a block, made of the last projection of a usual one."""

    follows = True

    def __init__(self, usual: Any) -> None:
        super().__init__()
        self.num_heads, self.head_dim, self.out_proj = usual.num_heads, usual.head_dim, usual.out_proj

    def forward(
        self, shared: SharedHeads, need_weights: bool = True, need_head_weights: bool = False, **_: Any
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Return the function of (47), T x B x C, and the weights of the first layer."""
        assert shared.attended is not None
        assert shared.source_weights is not None
        return self.out_proj(shared.attended), asked(shared.source_weights, need_weights, need_head_weights)


def asked(weights: Tensor, need_weights: bool, need_head_weights: bool) -> Optional[Tensor]:
    """Return weights, B x H x T x S, as fairseq's attention does: of each head, their mean, or None."""
    if need_head_weights:
        return weights.transpose(0, 1)
    return weights.mean(dim=1) if need_weights else None


def share_attention(layers: Sequence[Any], leaders: Sequence[int], cross: bool) -> None:
    """Let the layers of a decoder follow the nearest of the leaders below; `leaders` are numbers from 0."""
    for index, layer in enumerate(layers):
        if index not in leaders:
            layer.self_attn = FollowingSelfAttention(layer.self_attn)
            if cross:
                layer.encoder_attn = FollowingSourceAttention(layer.encoder_attn)
