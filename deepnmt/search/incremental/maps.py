"""A decoder's linear maps, prepared for products with few rows, and kept from one batch to the next."""

import math
from typing import Any, Optional
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deepnmt.kernels.kept import Kept
from deepnmt.kernels.products import Product, prefers_onednn, product
from deepnmt.search.candidates import whole_blocks
from deepnmt.search.reduced import kind_of


class Maps:
    """The prepared maps of one model; preparing them takes a third of the time of a single sentence."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], Kept[Product]] = {}

    def __call__(self, *projections: Any, scale: float = 1.0) -> Product:
        """Return the map of rows by several `nn.Linear` of one input: outputs side by side, the first scaled."""
        parameters = [each for linear in projections for each in (linear.weight, linear.bias) if each is not None]
        kind = kind_of(projections[0])
        kept = self._kept.setdefault((*map(id, projections), scale, kind), Kept())
        return kept.get(parameters, lambda: _joined(projections, scale, kind))

    def vocabulary(self, projection: nn.Linear) -> Optional[Product]:
        """Return the map of features to the logits of V types in whole blocks, -inf from column V on.

        None: a product with the weights as they lie is faster.
        """
        kind = kind_of(projection)
        if kind == "float32" and not prefers_onednn(projection.weight):
            return None
        parameters = [each for each in (projection.weight, projection.bias) if each is not None]
        kept = self._kept.setdefault((id(projection), kind), Kept())
        return kept.get(parameters, lambda: _padded(projection, kind))


def bias_of(linear: nn.Linear) -> Tensor:
    """Return the bias of a map, or zeros in its place."""
    return linear.weight.new_zeros(len(linear.weight)) if linear.bias is None else linear.bias


@torch.no_grad()
def _joined(projections: tuple[Any, ...], scale: float, kind: str) -> Product:
    weight = torch.cat([projection.weight for projection in projections])
    first = len(projections[0].weight)
    weight[:first] *= scale
    if all(projection.bias is None for projection in projections):
        return product(kind, weight, None)
    bias = torch.cat([bias_of(projection) for projection in projections])
    bias[:first] *= scale
    return product(kind, weight, bias)


# As plain tensors, even if a step requests it.
@torch.inference_mode(False)
@torch.no_grad()
def _padded(projection: nn.Linear, kind: str) -> Product:
    types = len(projection.weight)
    missing = whole_blocks(types) - types
    bias = F.pad(bias_of(projection), (0, missing), value=-math.inf)
    return product(kind, F.pad(projection.weight, (0, 0, 0, missing)), bias)


_KEPT: WeakKeyDictionary[nn.Module, Maps] = WeakKeyDictionary()


def maps_of(model: nn.Module) -> Maps:
    """Return a model's maps: the previous batch's maps, if the model will not be trained any more.

    Optimizers write to parameters in ways that cannot be noticed. Once fairseq has prepared a model for generation, the
    model refuses to be trained.
    """
    if not getattr(model, "_is_generation_fast", False):
        return Maps()
    return _KEPT.setdefault(model, Maps())
