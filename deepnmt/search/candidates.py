"""The best continuations of each sentence's hypotheses.

Shapes: N sentences of M hypotheses; V types in W columns, V in whole blocks; n candidates; B = M W / 64 blocks of a
sentence. Rows are sentence-major: all hypotheses of the first sentence, then all of the second.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

import torch
from torch import Tensor

# A sentence's M W continuations are cut into blocks of this size; the n best candidates lie in the n best blocks.
BLOCK = 64


class Candidates(NamedTuple):
    """Continuations of each sentence's hypotheses, the best first, N x n each.

    Attributes:
        sums: of log-probabilities, the new one included
        tokens: the type that each appends
        places: the hypothesis that each continues
    """

    sums: Tensor
    tokens: Tensor
    places: Tensor

    def of(self, sentences: Tensor) -> Candidates:
        """Return the candidates of some sentences, in their order."""
        return Candidates(*(values[sentences] for values in self))


def whole_blocks(types: int) -> int:
    """Return W for a vocabulary."""
    return -(-types // BLOCK) * BLOCK


def best_candidates(log_probs: Tensor, scores: Optional[Tensor], sentences: int, types: int, number: int) -> Candidates:
    """Return the continuations with the largest sums of log-probabilities.

    Args:
        log_probs: NM x W, contiguous and sentence-major; -inf from column V on
        scores: sums up to now, N x M; None: zeros
        sentences: N
        types: V
        number: n
    """
    blocks = log_probs.view(sentences, -1, BLOCK)  # N x B x 64
    in_row = log_probs.size(1) // BLOCK
    if blocks.size(1) > number:
        maxima = blocks.amax(2)  # N x B
        if scores is not None:
            maxima.view(sentences, -1, in_row).add_(scores.unsqueeze(-1))
        chosen = maxima.topk(number, sorted=False).indices  # N x n, blocks of the sentence
        first = torch.arange(0, blocks.size(0) * blocks.size(1), blocks.size(1), device=blocks.device)
        blocks = log_probs.view(-1, BLOCK).index_select(0, (chosen + first.unsqueeze(-1)).flatten())
        blocks = blocks.view(sentences, number, BLOCK)  # N x n x 64
    else:
        chosen = torch.arange(blocks.size(1), device=blocks.device).expand(sentences, -1)
    if scores is not None:
        blocks = blocks + scores.gather(1, chosen // in_row).unsqueeze(-1)
    best, place = blocks.flatten(1).topk(number)
    found = chosen.gather(1, place // BLOCK).mul_(BLOCK).add_(place.remainder(BLOCK))  # N x n, of M W
    # If all are -inf, the choice may be a column after the last type.
    return Candidates(best, found.remainder(log_probs.size(1)).clamp_(max=types - 1), found // log_probs.size(1))


def drawn_candidates(log_probs: Tensor, scores: Optional[Tensor], sentences: int, number: int) -> Candidates:
    """Return a continuation of each hypothesis, drawn by its probability; with one hypothesis, `number` of them.

    For the rest, see `best_candidates`.
    """
    each = number if scores is None else 1
    drawn = torch.multinomial(log_probs.softmax(1), each, replacement=True)  # NM x 1, or N x n
    sums, tokens = log_probs.gather(1, drawn).view(sentences, number), drawn.view(sentences, number)
    if scores is None:
        return Candidates(sums, tokens, torch.zeros_like(tokens))
    return Candidates(sums + scores, tokens, torch.arange(number, device=tokens.device).expand_as(tokens))


def ranked_candidates(
    log_probs: Tensor, scores: Optional[Tensor], bonus: Tensor, sentences: int, types: int, number: int
) -> Candidates:
    """Return the continuations with the largest sums and bonuses, in this order; `sums` are without the bonus.

    The bonus of each hypothesis is N x M; for the rest, see `best_candidates`.
    """
    totals = bonus if scores is None else scores + bonus
    ranked, tokens, places = best_candidates(log_probs, totals, sentences, types, number)
    # Subtracting the bonus would leave rounding errors.
    sums = log_probs.view(sentences, -1).gather(1, places * log_probs.size(1) + tokens)
    if scores is not None:
        sums += scores.gather(1, places)
    return Candidates(torch.where(ranked.eq(-math.inf), ranked, sums), tokens, places)
