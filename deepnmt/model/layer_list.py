"""The list of a stack's layers: this package's layers among them, the layers that run, and their wrappers."""

from collections.abc import Iterator
from typing import Any

from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import nn

from deepnmt.model.config import NestedConfig
from deepnmt.model.layers import DeepLayer


def wrap_layers(stack: Any, cfg: NestedConfig) -> None:
    """Apply activation checkpointing and full sharding, as fairseq does to its own layers.

    Called when the model is complete: full sharding flattens parameters, which an initialiser could no longer see.
    """
    wrapped: dict[int, nn.Module] = {}
    for index, layer in enumerate(stack.layers._modules.values()):
        if not isinstance(layer, DeepLayer):
            continue
        if id(layer) in wrapped:
            stack.layers[index] = wrapped[id(layer)]
            continue
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        min_num_params = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
        stack.layers[index] = wrapped[id(layer)] = fsdp_wrap(layer, min_num_params=min_num_params)


def deep_layers(layers: nn.ModuleList) -> list[DeepLayer]:
    """Return the layers, each once, without BASE layers of experts, which fairseq may have inserted."""
    return [layer for layer in layers.children() if isinstance(layer, DeepLayer)]


def kept_layers(layers: nn.ModuleList) -> Iterator[tuple[int, nn.Module]]:
    """Yield the layers to run, with their numbers from 0; in training, fairseq's list leaves some out (LayerDrop)."""
    if type(layers) is nn.ModuleList:
        yield from enumerate(layers)  # one layer may have several places
        return
    number = {id(layer): index for index, layer in enumerate(layers.children())}
    for layer in layers:
        yield number[id(layer)], layer
