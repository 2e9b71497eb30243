"""Layers with the same weights (Dabre and Fujita 2019, AAAI, arXiv 1807.05353): a stack runs a layer several times.

    x_(l+1) = layer_(s(l))(x_l),  s = --encoder-share-layers, such as 0,0,1,1,2,2                    (49)

All positions stand in the list of layers, with the module that they share; a checkpoint has their tensors under the
names of each. The norms and weights of a history belong to a position, and so does the state of a search.
"""

import re
from collections.abc import Sequence
from typing import Any

NONE = "none"


def sharing_pattern(text: str, depth: int) -> tuple[int, ...]:
    """Return the number of each position's layer.

    Raises:
        ValueError: names the required form of the text and its value
    """
    if text == NONE:
        return tuple(range(depth))
    if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise ValueError(f"must be 'none' or the layers by their numbers, such as 0,0,1,1, but is '{text}'")
    numbers = tuple(map(int, text.split(",")))
    if len(numbers) != depth:
        raise ValueError(f"must have a number for each of the {depth} layers, but has {len(numbers)}")
    for position, number in enumerate(numbers):
        if number > max(numbers[:position], default=-1) + 1:
            raise ValueError(f"must number layers from 0 in their order, but is '{text}'")
    return numbers


def share_layers(layers: Any, pattern: Sequence[int]) -> None:
    """Put the first layer of each number in all of its places, in a list of modules."""
    for position, number in enumerate(pattern):
        # Of a pruned model, the list has fewer places, and nothing is shared.
        if (first := pattern.index(number)) != position:
            layers[position] = layers[first]
