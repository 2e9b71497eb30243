"""The best continuations of each sentence's hypotheses.

Shapes: N sentences of M hypotheses; V types; n candidates.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

# A sentence's M V continuations are cut into blocks of so many; of n candidates, none is outside the n best blocks.
BLOCK = 64


def best_candidates(log_probs: Tensor, scores: Optional[Tensor], sentences: int, number: int) -> tuple[Tensor, ...]:
    """The continuations with the largest sums of log-probabilities, the best first.

    Args:
        log_probs: NM x V, contiguous
        scores: sums up to now, N x M; None: zeros
        sentences: N
        number: n

    Returns:
        sums, types and hypotheses, N x n each
    """
    types = log_probs.size(1)
    blocks = types // BLOCK
    if blocks * (log_probs.size(0) // sentences) <= number:
        return _best_of_all(log_probs, scores, sentences, number)
    return _best_of_blocks(log_probs, scores, sentences, number)


def _best_of_all(log_probs: Tensor, scores: Optional[Tensor], sentences: int, number: int) -> tuple[Tensor, ...]:
    sums = log_probs.view(sentences, -1, log_probs.size(1))
    if scores is not None:
        sums = sums + scores.unsqueeze(-1)
    best, index = sums.flatten(1).topk(number)
    return best, index.remainder(log_probs.size(1)), index // log_probs.size(1)


def _best_of_blocks(log_probs: Tensor, scores: Optional[Tensor], sentences: int, number: int) -> tuple[Tensor, ...]:
    types = log_probs.size(1)
    blocks = types // BLOCK
    regular = blocks * BLOCK
    hypotheses = log_probs.size(0) // sentences
    maxima = log_probs[:, :regular].view(-1, blocks, BLOCK).amax(2).view(sentences, hypotheses, blocks)
    if scores is not None:
        maxima = maxima + scores.unsqueeze(-1)
    chosen = maxima.flatten(1).topk(number, sorted=False).indices  # N x n
    parent = chosen // blocks
    first = parent * types + chosen.remainder(blocks) * BLOCK
    index = first.unsqueeze(-1) + torch.arange(BLOCK, device=log_probs.device)  # N x n x BLOCK
    sums = log_probs.view(sentences, -1).gather(1, index.flatten(1)).view(index.shape)
    # The types that are left over make no block.
    rest = log_probs.view(sentences, hypotheses, types)[..., regular:]
    if scores is not None:
        sums = sums + scores.gather(1, parent).unsqueeze(-1)
        rest = rest + scores.unsqueeze(-1)
    best, place = torch.cat([sums.flatten(1), rest.flatten(1)], dim=1).topk(number)
    inside = number * BLOCK
    index = index.flatten(1).gather(1, place.clamp(max=inside - 1))
    if types > regular:
        outside = place - inside
        left = types - regular
        index = index.where(outside < 0, outside // left * types + regular + outside.remainder(left))
    return best, index.remainder(types), index // types
