"""A batch of pairs with its sides exchanged.

Shapes: B sentences, S source and T target positions. Sources are padded on the left, targets on the right, as fairseq
does for translation; both end with the end symbol.
"""

from typing import Any

import torch
from torch import Tensor


def batch_of(source: Tensor, target: Tensor, pad: int, eos: int) -> dict[str, Any]:
    """Return the input of a model and its target for tokens, B x S and B x T, padded on either side."""
    target = to_one_side(target, pad, left=False)
    previous = torch.cat([target.new_full((len(target), 1), eos), target[:, :-1]], dim=1)
    inputs = {
        "src_tokens": to_one_side(source, pad, left=True),
        "src_lengths": source.ne(pad).sum(1),
        "prev_output_tokens": previous.masked_fill(target.eq(pad), pad),
    }
    return {"net_input": inputs, "target": target}


def exchanged(sample: dict[str, Any], pad: int, eos: int) -> dict[str, Any]:
    """Return the pairs of a batch from target to source, in the same order."""
    return batch_of(sample["target"], sample["net_input"]["src_tokens"], pad, eos)


def to_one_side(tokens: Tensor, pad: int, left: bool) -> Tensor:
    """Return tokens, B x T, with their padding moved to one side."""
    is_pad = tokens.eq(pad)
    order = (~is_pad if left else is_pad).int().argsort(dim=1, stable=True)
    return tokens.gather(1, order)
