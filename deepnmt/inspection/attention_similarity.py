"""How alike the layers of a decoder attend, and the blocks that can share attention weights (Xiao 2019, 1906.11024).

    sim(p, q) = mean over p <= i < j <= q of 1 - JS(S_i, S_j)                                         (48)

S_i are the probabilities of layer i's self-attention for a position, the mean of its heads. JS is the Jensen-Shannon
divergence to base 2, from 0 to 1, averaged over positions. From the first layer on, a block takes further layers while
sim(p, q) >= theta. The paper trains, measures, and trains again with the blocks until they no longer change.

Shapes: B sentences of T positions, H heads; M decoder layers.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.inspection.measure import layers_of

Matrix = list[list[float]]
OPTION = "--attention-similarity"


@torch.no_grad()
def similarities(model: Any, batches: Sequence[Any], padding: int) -> Matrix:
    """Return 1 - JS(S_i, S_j) for each pair of decoder layers, M x M.

    Args:
        model: a Transformer, which is left in evaluation mode
        batches: of its task
        padding: number of the padding symbol

    Raises:
        UserError: the decoder lacks layers, has one in several places, or one has no attention weights of its own
    """
    layers: list[Any] = layers_of(OPTION, "decoder", getattr(model, "decoder", None))
    for number, layer in enumerate(layers, start=1):
        if not hasattr(getattr(layer, "self_attn", None), "q_proj"):
            raise UserError(f"{OPTION}: decoder layer {number} has no attention weights of its own")
    model.eval()
    total, count = torch.zeros(len(layers), len(layers), dtype=torch.float64), 0
    for batch in batches:
        inputs = batch["net_input"]
        with _weights(layers) as found:
            model(**inputs, features_only=True)
        # A language model has no source beside its tokens.
        real = inputs.get("prev_output_tokens", inputs["src_tokens"]).ne(padding)  # B x T
        rows = torch.stack([each.double().mean(0)[real] for each in found])  # M x positions x T
        count += rows.size(1)
        for i, j in ((i, j) for i in range(len(layers)) for j in range(len(layers))):
            total[i, j] += (1 - divergence(rows[i], rows[j])).sum()
    return [[float(value) for value in row] for row in total / count]


def divergence(one: Tensor, other: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergences to base 2 of distributions over the last axis."""
    middle = ((one + other) / 2).clamp(min=torch.finfo(one.dtype).tiny)
    total: Tensor = torch.special.xlogy(one, one / middle) + torch.special.xlogy(other, other / middle)
    return total.sum(-1) / (2 * math.log(2))


def blocks(similarity: Matrix, theta: float) -> list[int]:
    """Return boundaries as --shared-attention-blocks takes them, from 0 to the number of layers."""
    depth = len(similarity)
    boundaries = [0]
    for last in range(1, depth):
        members = range(boundaries[-1], last + 1)
        pairs = [similarity[i][j] for i in members for j in members if i < j]
        if sum(pairs) / len(pairs) < theta:
            boundaries.append(last)
    return [*boundaries, depth]


@contextmanager
def _weights(layers: Sequence[Any]) -> Iterator[list[Tensor]]:
    """Collect the probabilities of the layers' self-attention in their order, H x B x T x T each."""
    found: list[Tensor] = []
    replaced = []
    for layer in layers:
        attention = layer.self_attn
        replaced.append(attention)
        attention.forward = _recording(attention, found)
    try:
        yield found
    finally:
        for attention in replaced:
            del attention.forward


def _recording(attention: Any, found: list[Tensor]) -> Any:
    stock = attention.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        wanted = {**kwargs, "need_weights": True, "need_head_weights": True}
        if not hasattr(attention, "relative_keys"):
            # fairseq's way of returning the weights of each head.
            wanted["static_kv"] = True
        attended, weights = stock(*args, **wanted)
        # The first layer of a block leaves them to the others.
        found.append(kwargs["shared"].weights.transpose(0, 1) if weights is None else weights)
        return attended, None

    return forward
