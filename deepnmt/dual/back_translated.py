"""Back-translation on the fly: a batch of one language is translated now, and the opposite direction learns from it.

`bwd` translates target text y greedily into x', and `fwd` learns from the pairs (x', y) (Lample 2018, EMNLP, D18-1549).
For source text, both exchange their places. No gradient flows through the translation.

Shapes: B sentences, T positions.
"""

from typing import Any

import torch
from fairseq.data.data_utils import collate_tokens
from torch import Tensor

from deepnmt.criterions.dual_supervised import Pass
from deepnmt.criterions.minimum_risk import evaluating
from deepnmt.data.exchanged_pairs import batch_of, to_one_side


@torch.no_grad()
def translations(generator: Any, model: Any, text: Tensor, pad: int) -> list[list[Tensor]]:
    """Return the translations of sentences, B x T, without dropout, best first, with their end symbols."""
    inputs = {"src_tokens": to_one_side(text, pad, left=True), "src_lengths": text.ne(pad).sum(1)}
    with evaluating(model):
        found = generator.generate([model], {"net_input": inputs})
    return [[each["tokens"] for each in hypotheses] for hypotheses in found]


def back_translated(generator: Any, model: Any, learner: str, text: Tensor, weight: float, pad: int, eos: int) -> Pass:
    """Return the pairs that one direction learns from.

    Args:
        generator: greedy search by `model`, whose translations have a word at least
        model: translates the text
        learner: the opposite direction
        text: B x T
        weight: of the pairs
        pad, eos: numbers of these symbols
    """
    source = collate_tokens([each[0] for each in translations(generator, model, text, pad)], pad)
    pairs = batch_of(source, text, pad, eos)
    return Pass(learner, pairs["net_input"], pairs["target"], weight)
