"""The words of sentences in the opposite order; end symbols and padding keep their places.

Shapes: ... x T is any number of sentences of T positions.
"""

import torch
from torch import Tensor


def reversal(tokens: Tensor, eos: int, pad: int) -> Tensor:
    """Return the order, ... x T, that reverses the words of tokens, ... x T; applied twice, it changes nothing."""
    words = tokens.ne(eos) & tokens.ne(pad)
    number = words.cumsum(-1)  # of each word, from 1
    places = words.logical_not().long().argsort(dim=-1, stable=True)  # of the words, then of all else
    opposite = places.gather(-1, (number[..., -1:] - number).clamp(min=0))
    return torch.where(words, opposite, torch.arange(tokens.size(-1), device=tokens.device))


def reversed_words(tokens: Tensor, eos: int, pad: int) -> Tensor:
    """Return sentences, ... x T, with their words reversed; arguments as in `reversal`."""
    return tokens.gather(-1, reversal(tokens, eos, pad))
