"""CUDA's arithmetic on the CPU, where the two differ in half precision."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

aten = torch.ops.aten
HALVES = (torch.half, torch.bfloat16)
NORM, NORM_BACKWARD = aten.native_layer_norm.default, aten.native_layer_norm_backward.default
# CUDA has kernels that read half precision and write float32, and the other way round.
SOFTMAXES = (aten._softmax.default, aten._log_softmax.default, aten._softmax.out, aten._log_softmax.out)
SOFTMAX_GRADIENTS = (aten._softmax_backward_data.default, aten._log_softmax_backward_data.default)


def on_shadows(func: Any, args: Any, kwargs: Any) -> Any:
    """Make an operation on the CPU as CUDA would make it."""
    if func in (NORM, NORM_BACKWARD) and args[0].dtype in HALVES:
        # Means and deviations are float32 there.
        results = func(*tree_map(_single, args), **kwargs)
        kept = 1 if func is NORM else len(results)
        rounded = (None if x is None else x.to(args[0].dtype) for x in results[:kept])
        return (*rounded, *results[kept:])
    if func in SOFTMAXES and args[2]:
        return func(args[0].float(), args[1], False, **kwargs)
    if func in SOFTMAX_GRADIENTS and args[3] in HALVES and args[0].dtype == torch.float:
        return func(*args[:3], torch.float).to(args[3])
    try:
        return func(*args, **kwargs)
    except (RuntimeError, NotImplementedError) as error:
        if "not implemented for" not in str(error):
            raise
        return tree_map(_half, func(*tree_map(_single, args), **tree_map(_single, kwargs)))


def _single(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype in HALVES else value


def _half(value: Any) -> Any:
    return value.half() if isinstance(value, Tensor) and value.dtype == torch.float else value
