"""`--encoder-freeze` and `--decoder-freeze`: layers that keep the weights they begin a training with.

Gradients pass through frozen layers, and their dropout stays on. Embeddings, connections between layers, and the norms
outside the layers are trained.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from deepnmt.model.shared_layers import NONE


def frozen_layers(text: str, depth: int) -> tuple[int, ...]:
    """Return the frozen layers of a stack, from 0.

    Raises:
        ValueError: names the required form of the text and its value
    """
    if text == NONE:
        return ()
    if not re.fullmatch(r"\d{1,6}(,\d{1,6})*", text, re.ASCII):
        raise ValueError(f"must be 'none' or layers such as 1,2,3, counted from 1, but is '{text}'")
    layers = [int(number) for number in text.split(",")]
    if unknown := [layer for layer in layers if not 1 <= layer <= depth]:
        raise ValueError(f"must name layers from 1 to {depth}, but names {unknown[0]}")
    return tuple(layer - 1 for layer in layers)


def freeze_text(layers: Iterable[int]) -> str:
    """Return the option's text for layers from 0."""
    return ",".join(str(layer + 1) for layer in layers) or NONE


def freeze(layers: Any, frozen: Iterable[int]) -> None:
    """Exclude some of a stack's layers, from 0, from training."""
    for number in frozen:
        layers[number].requires_grad_(False)


def frozen_names(names: Iterable[str], options: Mapping[str, Any]) -> list[str]:
    """Return the names of a checkpoint's parameters that its training did not change, by its model's options."""
    begins = tuple(
        f"{stack}.layers.{layer}."
        for stack in ("encoder", "decoder")
        for layer in frozen_layers(str(options.get(f"{stack}_freeze", NONE)), 1_000_000)
    )
    return [name for name in names if name.startswith(begins)] if begins else []
