"""A model with fewer bits in the large products of its encoder, its decoder and its vocabulary.

The maps stay `nn.Linear`s with their parameters, but their calls are replaced. Norms, softmax, attention, histories and
sums stay in float32, and so do maps that are too small to profit.
"""

import functools
from typing import Any

import torch
from torch import Tensor, nn

from deepnmt.errors import UserError
from deepnmt.kernels.kept import Kept
from deepnmt.kernels.products import WHOLE, Product, obstacle, product

# Weights of a map below which rounding its input costs more than it saves. The number of rows must not decide:
# a translation would depend on the rest of the batch.
FEW_WEIGHTS = 2**16


def reduce_products(model: nn.Module, kind: str) -> None:
    """Make a model that will not be trained any more compute its products in fewer bits, by a kind of products.

    Raises:
        UserError: the processor cannot compute them
    """
    parameter = next(model.parameters())
    reason = obstacle(kind, parameter.device)
    if reason is not None:
        raise UserError(f"--weights {kind}: {reason}")
    if kind in WHOLE:
        return
    for module in model.modules():
        if type(module) is nn.Linear and module.weight.numel() >= FEW_WEIGHTS:
            module.forward = ReducedForward(module, kind)  # type: ignore[method-assign, assignment]
        elif type(module).__qualname__ == "MultiheadAttention":  # fairseq's, which need not be imported
            # Makes it call its maps; there is no other effect without an incremental state.
            attention: Any = module
            attention.forward = functools.partial(module.forward, static_kv=True)


def kind_of(linear: nn.Module) -> str:
    """Return the kind of a map's products."""
    forward: Any = linear.forward
    return forward.kind if isinstance(forward, ReducedForward) else "float32"


class ReducedForward:
    """The `forward` of a map, with products of a kind."""

    def __init__(self, linear: nn.Linear, kind: str) -> None:
        self.weight, self.bias, self.kind = linear.weight, linear.bias, kind
        self._kept: Kept[Product] = Kept()

    def __call__(self, x: Tensor) -> Tensor:
        """Return ... x O for x, ... x C."""
        parameters = [each for each in (self.weight, self.bias) if each is not None]
        function = self._kept.get(parameters, self._product)
        return function(x.reshape(-1, x.size(-1))).view(*x.shape[:-1], -1)

    # As plain tensors, whatever context the first call belongs to.
    @torch.inference_mode(False)
    @torch.no_grad()
    def _product(self) -> Product:
        return product(self.kind, self.weight, self.bias)
