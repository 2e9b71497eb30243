"""Visible keys of an attention's queries, if some queries may see no key.

Shapes: T queries, S keys, B sentences.

A target that is padded on the left, under the causal mask, begins with queries that see padding only. A softmax over
nothing is NaN, which the gradient of the weights would spread everywhere. The result of such a query is never read, so
it may see all keys: that is finite, and has no gradient.
"""

import torch
from torch import Tensor

HIDDEN = float("-inf")


def may_blind(padding: Tensor | None, mask: Tensor | None) -> bool:
    """Return whether a query may have no visible key. A device's host waits for the answer.

    Args:
        padding: true or one at padded keys, B x S
        mask: added to the scores, T x S; each query sees the first key by it, as by the causal one
    """
    if padding is None:
        return False
    # Without a mask, a sentence must be padded at both ends to be padding only.
    suspects = padding[:, 0] if mask is not None else padding[:, 0] & padding[:, -1]
    return bool(suspects.any())


def seen_keys(padding: Tensor, mask: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return the mask to add to the scores of all heads, B x T x S or B x 1 x S: -inf at hidden keys."""
    added = torch.zeros(padding.shape, dtype=dtype, device=padding.device).masked_fill_(padding.bool(), HIDDEN)
    added = added.unsqueeze(1) if mask is None else added.unsqueeze(1) + mask
    return added.masked_fill(added.eq(HIDDEN).all(-1, keepdim=True), 0.0)
