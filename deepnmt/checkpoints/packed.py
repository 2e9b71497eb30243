"""A model's tensors in fewer bits, as exported folders hold them.

Large weights of linear maps and embeddings are rounded, with a scale for each row of int8. Other tensors stay as they
are. Reading returns rounded values, and rounding them once more changes nothing.
"""

import re
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from deepnmt.checkpoints.state import SCALES, Tensors
from deepnmt.errors import UserError
from deepnmt.kernels.products import quantised
from deepnmt.search.reduced import FEW_WEIGHTS

MAPS = "q_proj|k_proj|v_proj|out_proj|fc1|fc2|embed_tokens|output_projection|project_in_dim|project_out_dim"
HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
WEIGHT = re.compile(rf"(.*\.)?({MAPS})\.weight")


def packed(tensors: Tensors, kind: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the tensors with large weights of a kind, and of int8 the scales, O x 1, by their names.

    Args:
        tensors: of a model
        kind: float16, bfloat16 or int8

    Raises:
        UserError: a weight is too large for float16
    """
    result: dict[str, Tensor] = {}
    scales: dict[str, Tensor] = {}
    # Tables that embeddings and vocabulary share are stored once.
    done: dict[int, tuple[Tensor, Tensor]] = {}
    for name, tensor in tensors.items():
        if not WEIGHT.fullmatch(name) or tensor.numel() < FEW_WEIGHTS:
            result[name] = tensor
            continue
        if tensor.data_ptr() not in done:
            weight = tensor.float()
            done[tensor.data_ptr()] = quantised(weight) if kind == "int8" else (weight.to(HALVES[kind]), weight)
            if kind == "float16" and not bool(done[tensor.data_ptr()][0].isfinite().all()):
                raise UserError(f"--weights float16: {name} has numbers above 65,504; use bfloat16")
        result[name] = done[tensor.data_ptr()][0]
        if kind == "int8":
            scales[name] = done[tensor.data_ptr()][1]
    return result, scales


def scale_faults(scales: object, tensors: Tensors) -> Iterator[str]:
    """Yield each fault of the scales of a checkpoint with these tensors."""
    if not isinstance(scales, Mapping):
        yield f"{SCALES} must be tensors by the names of weights, but is {type(scales).__name__}"
        return
    for name, scale in scales.items():
        if name not in tensors or tensors[name].dim() != 2:
            yield f"{SCALES} must be of the model's weights alone, but has {str(name)[:60]}"
        elif not isinstance(scale, Tensor) or scale.shape != (len(tensors[name]), 1) or not scale.is_floating_point():
            yield f"{SCALES} must have a number for each row of model.{name}, but has not"


def unpacked(tensors: Tensors, scales: Tensors) -> dict[str, Tensor]:
    """Undo `packed`: return a model's tensors in float32; tensors stored once are shared again."""
    result: dict[str, Tensor] = {}
    done: dict[tuple[int, tuple[int, ...], int], Tensor] = {}
    for name, tensor in tensors.items():
        if name not in scales and tensor.dtype not in HALVES.values():
            result[name] = tensor
            continue
        place = tensor.data_ptr(), tuple(tensor.shape), scales[name].data_ptr() if name in scales else 0
        if place not in done:
            done[place] = tensor * scales[name] if name in scales else tensor.float()
        result[name] = done[place]
    return result
