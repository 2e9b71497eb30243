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
    # Rows x blocks x BLOCK; the types that are left over make no block.
    by_blocks = log_probs[:, :regular].view(-1, blocks, BLOCK)
    rest = log_probs.view(sentences, hypotheses, types)[..., regular:]
    maxima = by_blocks.amax(2).view(sentences, hypotheses, blocks)
    if scores is not None:
        maxima = maxima + scores.unsqueeze(-1)
        rest = rest + scores.unsqueeze(-1)
    chosen = maxima.flatten(1).topk(number, sorted=False).indices  # N x n
    parent, block = chosen // blocks, chosen.remainder(blocks)
    first_row = torch.arange(0, log_probs.size(0), hypotheses, device=log_probs.device).unsqueeze(-1)
    sums = by_blocks[first_row + parent, block]  # N x n x BLOCK
    if scores is not None:
        sums = sums + scores.gather(1, parent).unsqueeze(-1)
    best, place = torch.cat([sums.flatten(1), rest.flatten(1)], dim=1).topk(number)
    inside = number * BLOCK
    among = (place // BLOCK).clamp(max=number - 1)
    types_found = block.gather(1, among) * BLOCK + place.remainder(BLOCK)
    parents_found = parent.gather(1, among)
    if types > regular:
        outside, left = place - inside, types - regular
        types_found = types_found.where(outside < 0, regular + outside.remainder(left))
        parents_found = parents_found.where(outside < 0, outside // left)
    return best, types_found, parents_found
