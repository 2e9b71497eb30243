"""Merged attention, MAtt (Zhang 2019, EMNLP, arXiv 1908.11365): one sublayer for target and source.

    MAtt(X) = [ concat_heads(Att(X Wq, E Wk, E Wv)) + A (X Wv) ] Wo,  A[j, i] = 1/j for i <= j     (12)

E is the output of the encoder; A takes the mean of the positions so far; Wv and Wo serve both terms.
Shapes: T x B x C is time, batch, channel; H heads of D channels; T target positions, S source positions.
"""
# Twin: deepnmt/search/incremental/attention_steps.py computes this for one position in a search; change both.
# Twin: deepnmt/engines/onnx/attention.py computes it in ONNX Runtime; change this too.

from typing import Any, Optional

from torch import Tensor

from deepnmt.model.cumulative_mean import cumulative_mean
from deepnmt.model.heads_attention import HeadsAttention

IncrementalState = dict[str, dict[str, Optional[Tensor]]]


class MergedAttention(HeadsAttention):
    """Cross-attention and the cumulative mean of the target, (12); in a decoder layer it replaces self-attention too.

    Parameters, their initial values, scaling, biases, dropout and the source's cached keys and values are the same as
    in fairseq's cross-attention. A bias belongs to its projection, so the bias of Wv enters both terms. For the target,
    the incremental state holds a sum and a count, whatever the number of steps.

    Args:
        embed_dim: the width of the decoder, C
        num_heads: H; must divide `embed_dim`
        kdim: the width of the encoder's output, by default `embed_dim`; since Wv reads both, it must be the same
        vdim: as `kdim`
        kwargs: fairseq's, such as `dropout` on the probabilities

    Raises:
        ValueError: the widths differ
    """

    def __init__(
        self, embed_dim: int, num_heads: int, kdim: Optional[int] = None, vdim: Optional[int] = None, **kwargs: Any
    ) -> None:
        for width in (kdim, vdim):
            if width not in (None, embed_dim):
                must = f"the encoder's width must be the decoder's, {embed_dim}"
                raise ValueError(f"with merged attention {must}, but is {width}")
        super().__init__(embed_dim, num_heads, encoder_decoder_attention=True, **kwargs)

    def forward(
        self,
        query: Tensor,
        encoder_out: Optional[Tensor],
        key_padding_mask: Optional[Tensor] = None,
        query_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        need_weights: bool = True,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Return the sum of (12), and the probabilities of its first term.

        Args:
            query: X, T x B x C
            encoder_out: E, S x B x C; used in the first step only if there is an incremental state
            key_padding_mask: B x S, true or one at padding of the source
            query_padding_mask: B x T, true or one at padding of the target, which the mean leaves out
            incremental_state: holds what earlier steps left; `query` is then the newest steps
            need_weights: also return the probabilities, B x T x S, averaged over the heads
            need_head_weights: return them for each head, H x B x T x S

        Returns:
            T x B x C, and the probabilities before dropout, or None
        """
        attended, weights = self.heads(query, encoder_out, key_padding_mask, incremental_state)
        saved = self.get_incremental_state(incremental_state, "target_mean")
        mean, last = cumulative_mean(self.v_proj(query), query_padding_mask, saved)
        # Copied: the last step as a view would keep all steps of a prefix alive.
        self.set_incremental_state(incremental_state, "target_mean", {name: last[name].clone() for name in last})
        merged = self.out_proj((attended + mean).type_as(attended))
        if need_head_weights:
            return merged, weights.transpose(0, 1)
        return merged, weights.mean(dim=1) if need_weights else None

    def reorder_incremental_state(
        self, incremental_state: Optional[IncrementalState], new_order: Tensor
    ) -> Optional[IncrementalState]:
        """Let entry `new_order[i]` of the batch become entry i.

        As in fairseq, keys and values of the source stay in place as long as the batch keeps its size. In beam search,
        the exchanged entries are then hypotheses of one sentence.
        """
        super().reorder_incremental_state(incremental_state, new_order)
        saved = self.get_incremental_state(incremental_state, "target_mean")
        if saved is not None:
            reordered = {name: tensor.index_select(0, new_order) for name, tensor in saved.items()}
            self.set_incremental_state(incremental_state, "target_mean", reordered)
        return incremental_state
