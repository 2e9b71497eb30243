"""The sublayers of a layer, in execution order. No other module states that order."""

from typing import Any

SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD = "self_attn", "encoder_attn", "final"
# The feed-forward sublayer is always there, and the last one.
SUBLAYERS = (SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD)
BACKWARD_ATTENTION = "backward_attn"
# Additions to the encoder's output for a decoder's second attention: states of a two-sided model's backward decoder, or
# of a frozen encoder, L x B x C, and their padding, B x L.
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
    # In a decoder layer, the second attention is in the cross-attention's sublayer.
    place = CROSS_ATTENTION if getattr(layer, CROSS_ATTENTION, None) is not None else SELF_ATTENTION
    second = getattr(layer, BACKWARD_ATTENTION, None) if name == place else None
    return [getattr(layer, name)] if second is None else [getattr(layer, name), second]
