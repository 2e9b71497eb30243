"""The best continuations of each sentence's hypotheses.

Shapes: N sentences of M hypotheses; V types; W columns, V in whole blocks; n candidates.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

# A sentence's M W continuations are cut into blocks of so many; of n candidates, none is outside the n best blocks.
BLOCK = 64


def whole_blocks(types: int) -> int:
    """W for a vocabulary."""
    return -(-types // BLOCK) * BLOCK


def best_candidates(
    log_probs: Tensor, scores: Optional[Tensor], sentences: int, types: int, number: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The continuations with the largest sums of log-probabilities, the best first.

    Args:
        log_probs: NM x W, contiguous; -inf from column V on
        scores: sums up to now, N x M; None: zeros
        sentences: N
        types: V
        number: n

    Returns:
        sums, types and hypotheses, N x n each
    """
    blocks = log_probs.view(sentences, -1, BLOCK)
    in_row = log_probs.size(1) // BLOCK
    if blocks.size(1) > number:
        maxima = blocks.amax(2)
        if scores is not None:
            maxima.view(sentences, -1, in_row).add_(scores.unsqueeze(-1))
        chosen = maxima.topk(number, sorted=False).indices  # N x n
        first = torch.arange(0, blocks.size(0) * blocks.size(1), blocks.size(1), device=blocks.device)
        blocks = log_probs.view(-1, BLOCK).index_select(0, (chosen + first.unsqueeze(-1)).flatten())
        blocks = blocks.view(sentences, number, BLOCK)
    else:
        chosen = torch.arange(blocks.size(1), device=blocks.device).expand(sentences, -1)
    if scores is not None:
        blocks = blocks + scores.gather(1, chosen // in_row).unsqueeze(-1)
    best, place = blocks.flatten(1).topk(number)
    found = chosen.gather(1, place // BLOCK).mul_(BLOCK).add_(place.remainder(BLOCK))  # of M W
    # With -inf, what is chosen may be none of the types.
    return best, found.remainder(log_probs.size(1)).clamp_(max=types - 1), found // log_probs.size(1)
