"""The sublayers of a layer, in execution order. No other module states that order."""

from typing import Any

SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD = "self_attn", "encoder_attn", "final"
# The feed-forward sublayer is always there, and the last one.
SUBLAYERS = (SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD)
BACKWARD_ATTENTION = "backward_attn"
# Additions to the encoder's output for a two-sided decoder: states, L x B x C, and their padding, B x L.
BACKWARD = BACKWARD_STATES, BACKWARD_PADDING = "backward_out", "backward_padding_mask"


def sublayers_of(layer: Any) -> list[str]:
    """Return the sublayers of a layer, this package's or fairseq's.

    NAME_layer_norm, and in this package's layers NAME_residual, are the modules that belong to each.
    """
    return [name for name in SUBLAYERS if name == FEED_FORWARD or getattr(layer, name, None) is not None]


def branch_modules(layer: Any, name: str) -> list[Any]:
    """Return the modules of a sublayer's function F."""
    if name == FEED_FORWARD:
        return [layer.fc1, layer.fc2]
    # A two-sided decoder has another attention in the sublayer of its cross-attention.
    second = getattr(layer, BACKWARD_ATTENTION, None) if name == CROSS_ATTENTION else None
    return [getattr(layer, name)] if second is None else [getattr(layer, name), second]
