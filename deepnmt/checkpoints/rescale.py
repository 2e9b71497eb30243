"""Make up for what another depth does to the layers that stay.

A constant a of the residuals (4) and a factor f of the branches at inference (15) depend on the depth. What they change
goes into the last projection of each sublayer: LN(a' x + f' c F(x)) = LN(a x + f F(x)) for c = a' f / (a f').
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from deepnmt.checkpoints.plans import LayerPlan
from deepnmt.model.stack import StackOptions
from deepnmt.model.sublayers import SUBLAYERS, last_projection

Tensors = dict[str, Tensor]


def can_rescale(old: StackOptions, new: StackOptions) -> bool:
    """Return whether a factor of its branches can make up for what another depth does to a layer's residuals."""
    return old.residual_scale == new.residual_scale or not new.norm.layer_input


def branch_factors(old: StackOptions, new: StackOptions, layers: LayerPlan) -> tuple[tuple[float, ...], ...]:
    """Return for each new layer what the branches of its sublayers are to be multiplied by."""
    scale = new.residual_scale / old.residual_scale
    before, after = old.inference_factors(), new.inference_factors()
    pairs = [(before[source], after[layer]) for layer, source in enumerate(layers.sources)]
    return tuple(tuple(scale * f / g for f, g in zip(*pair)) for pair in pairs)


def scale_branches(tensors: Tensors, stack: str, factors: Sequence[tuple[float, ...]]) -> None:
    """Multiply the branches of a stack's sublayers, layer by layer, by way of the projections that end them."""
    for layer, of_sublayers in enumerate(factors):
        for name, factor in zip(sublayers(tensors, stack, layer), of_sublayers):
            for key in projection(tensors, stack, layer, name) if factor != 1.0 else []:
                single = torch.promote_types(tensors[key].dtype, torch.float32)
                tensors[key] = (tensors[key].to(single) * factor).to(tensors[key].dtype)


def projection(tensors: Tensors, stack: str, layer: int, sublayer: str) -> list[str]:
    """Return the names of the matrix that ends a sublayer, and of its bias."""
    name = f"{stack}.layers.{layer}.{last_projection(sublayer)}"
    return [key for key in (f"{name}.weight", f"{name}.bias") if key in tensors]


def sublayers(tensors: Tensors, stack: str, layer: int) -> list[str]:
    """Return the names of a layer's sublayers, in their order."""
    return [name for name in SUBLAYERS if f"{stack}.layers.{layer}.{last_projection(name)}.weight" in tensors]
