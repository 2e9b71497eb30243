"""The arithmetic of relative positions (7), without fairseq: `relative_position.py` has the formula and the module.

Shapes: B sentences; H heads of D channels; T queries, S keys, R = 2r + 1 distances. No tensor of T x S x D is built.
One product compares a query with the R vectors, and is then gathered. The probabilities are summed by distance before
they meet aV.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Optional

import torch
from torch import Tensor


@dataclass(frozen=True)
class RelativePositionOptions:
    """The choices of one stack.

    Attributes:
        max_length: r, the distance from which positions are not distinguished; 0: no relative positions
        values: aV beside aK
    """

    max_length: int = 0
    values: bool = True


def relative_index(queries: int, keys: int, max_length: int, device: torch.device) -> Tensor:
    """Return the rows of aK and aV, T x S: clip(j - i, -r, r) + r; the last query is at the last key."""
    position = torch.arange(keys, device=device)
    distance = position.unsqueeze(0) - position[keys - queries :].unsqueeze(1)
    return distance.clamp(-max_length, max_length) + max_length


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    vectors: tuple[Optional[Tensor], Optional[Tensor]],
    mask: Optional[Tensor],
    dropout: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Return the attended values, B x H x T x D, and the probabilities before dropout, B x H x T x S.

    Args:
        query: scaled, B x H x T x D
        key: B x H x S x D
        value: B x H x S x D
        vectors: aK and aV, R x D each; None in place of aV: keys alone are relative; in place of both: nothing is
        mask: added to the scores
        dropout: on the probabilities
    """
    keys, values = vectors
    batch, heads, length, _ = query.shape
    scores = torch.matmul(query, key.transpose(2, 3))  # B x H x T x S
    if keys is not None:
        index = relative_index(length, key.size(2), len(keys) // 2, query.device).expand(batch, heads, -1, -1)
        scores = scores + torch.matmul(query, keys.t()).gather(-1, index)
    if mask is not None:
        scores = scores + mask
    # In half precision the sum of many exponentials needs float32, as in fairseq's attention.
    weights = scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
    probabilities = dropout(weights.type_as(scores))
    attended = torch.matmul(probabilities, value)  # B x H x T x D
    if values is not None:
        # Many small ones in half precision: added one by one, they would be lost beside their sum.
        exact = torch.promote_types(probabilities.dtype, torch.float32)
        by_distance = probabilities.new_zeros(*probabilities.shape[:3], len(values), dtype=exact)
        by_distance = by_distance.scatter_add(-1, index, probabilities.to(exact)).type_as(probabilities)
        attended = attended + torch.matmul(by_distance, values)
    return attended, weights
