"""fairseq's cross-attention up to its last projection.

Shapes: T x B x C is time, batch, channel; H heads of D channels; S source positions.
"""

from typing import Any, Optional

import torch
from torch import Tensor

from deepnmt.model.attention import NamedAttention


class HeadsAttention(NamedAttention):
    """fairseq's module for attention to the source, whose heads are used before they are projected."""

    def heads(
        self,
        query: Tensor,
        source: Optional[Tensor],
        padding: Optional[Tensor],
        incremental_state: Optional[dict[str, Any]],
    ) -> tuple[Tensor, Tensor]:
        """Return the heads side by side, T x B x C, and the probabilities before dropout, B x H x T x S.

        Args:
            query: T x B x C
            source: S x B x C; used in the first step only if there is an incremental state
            padding: B x S, true or one at padding of the source
            incremental_state: holds the source's keys and values
        """
        length, batch, _ = query.shape
        # fairseq's attention up to the softmax, which it would compute in float32 for float64 too. In beam search the
        # hypotheses of a sentence may share keys and values: then there are fewer of these than B.
        scores, values = super().forward(
            query,
            source,
            source,
            key_padding_mask=padding,
            incremental_state=incremental_state,
            static_kv=True,
            before_softmax=True,
        )
        # In half precision the sum of many exponentials needs float32, as in fairseq's attention.
        weights = scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        probabilities = self.dropout_module(weights.type_as(scores))
        values = values.view(-1, self.num_heads, *values.shape[1:])  # K x H x S x D
        probabilities = probabilities.view(len(values), -1, self.num_heads, length, values.size(2))
        # K sentences of N hypotheses each, B = K N.
        attended = torch.einsum("knhts,khsd->tknhd", probabilities, values).reshape(length, batch, self.embed_dim)
        return attended, weights.view(batch, self.num_heads, length, -1)
