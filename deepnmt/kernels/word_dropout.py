"""Which tokens of a batch lose their embedding.

Shapes: B sentences, T tokens.
"""

import torch
from torch import Tensor


def dropped_source(tokens: Tensor, rate: float, pad: int) -> Tensor:
    """Return which tokens of sources are drawn, each with probability `rate`, B x T; never the last, the end symbol.

    torch's generator of the device makes the draws; fairseq seeds it for each update.
    """
    # Tokens from each one on, itself included: 1 at the last, whichever side the padding is on.
    following = tokens.ne(pad).long().flip(1).cumsum(1).flip(1)
    return _drawn(tokens, rate) & following.ne(1)


def dropped_target(tokens: Tensor, rate: float, pad: int) -> Tensor:
    """Return the same for the decoder's inputs; never the first token, which begins a translation."""
    preceding = tokens.ne(pad).long().cumsum(1)
    return _drawn(tokens, rate) & preceding.gt(1)


def without(embedding: Tensor, dropped: Tensor) -> Tensor:
    """Return token embeddings, B x T x C, with zeros in place of the dropped ones, B x T."""
    return embedding.masked_fill(dropped.unsqueeze(-1), 0.0)


def _drawn(tokens: Tensor, rate: float) -> Tensor:
    sentences, length = tokens.shape
    return torch.rand(sentences, length, device=tokens.device) < rate
