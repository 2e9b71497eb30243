"""Admin's profiling pass: initial values of the residuals' trained vectors (Liu 2020, EMNLP, arXiv 2004.08249).

    w_i = r_i,  r_1 = 1,  r_{i+1} = sqrt(Var(w_i x_i) + Var(F_i(x_i)))                           (14)

over the sublayers i of a stack, encoder and decoder apart. Var is one number over a whole tensor, T x B x C.

The pass runs in training mode, on each batch of the first update by itself; `w` is the root mean square over them. It
omits no layer. A model awaits the pass only while every `w` still has its initial value 1.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from deepnmt.model.initializers.initializer import BatchInitializer, InitializerOptions
from deepnmt.model.residual import RESIDUALS, Residual


class Admin(BatchInitializer):
    """Sets the vectors of the residuals by (14)."""

    def faults(self, options: InitializerOptions) -> Iterator[str]:
        """Yield a line unless the residuals have the vectors."""
        if not RESIDUALS[str(options.residual_scale)].trained:
            names = " or ".join(name for name, rule in RESIDUALS.items() if rule.trained)
            must = f"{names} with --initializer {options.initializer}"
            yield f"--residual-scale must be {must}, but is {options.residual_scale}"

    def is_pending(self, model: Any) -> bool:
        """Return whether every `w` is still 1."""
        return all(bool((residual.weight == 1).all()) for residual in residuals(model))

    def size(self, model: Any) -> int:
        """Return the number of sublayers."""
        return len(residuals(model))

    def measure(self, model: Any, net_input: dict[str, Tensor]) -> list[float]:
        """Return `r^2` for each sublayer of the encoder, then of the decoder.

        Afterwards `w = r`, and the model is in training mode.
        """
        model.train()
        with torch.no_grad(), _profiled(model.encoder) as encoder, _profiled(model.decoder) as decoder:
            model(**net_input, features_only=True)
        ratios = {**encoder, **decoder}
        return [ratios[residual] ** 2 for residual in residuals(model)]

    def set_weights(self, model: Any, means: Sequence[float]) -> str:
        """Set each `w` to the root of the mean of `r^2`."""
        weights = [math.sqrt(mean) for mean in means]
        with torch.no_grad():
            for residual, weight in zip(residuals(model), weights):
                residual.weight.fill_(weight)
        encoder = len(residuals(model.encoder))
        return f"w of the encoder {_span(weights[:encoder])}, of the decoder {_span(weights[encoder:])}"


def residuals(module: Any) -> list[Any]:
    """Return the residuals of a model or a stack, one per sublayer, in execution order."""
    return [part for part in module.modules() if isinstance(part, Residual)]


def _span(values: Sequence[float]) -> str:
    return f"from {min(values):.3g} to {max(values):.3g}"


@contextmanager
def _profiled(stack: Any) -> Iterator[dict[Any, float]]:
    """Make each residual that runs set its `w`, and collect the `r`; only dropout itself drops anything."""
    found: dict[Any, float] = {}
    ratio = 1.0

    def set_weight(residual: Any, inputs: tuple[Tensor, Tensor]) -> None:
        nonlocal ratio
        x, branch = inputs
        found[residual] = ratio
        residual.weight.fill_(ratio)
        ratio = math.sqrt(ratio**2 * _variance(x) + _variance(branch))

    # LayerDrop and sublayer skipping heed the mode of the list of layers, and of the module that draws.
    switches = [module for module in (stack.layers, stack.skipping) if module is not None]
    handles = [residual.register_forward_pre_hook(set_weight) for residual in residuals(stack)]
    for module in switches:
        module.training = False
    try:
        yield found
    finally:
        for module in switches:
            module.training = True
        for handle in handles:
            handle.remove()


def _variance(x: Tensor) -> float:
    return float(x.to(torch.promote_types(x.dtype, torch.float32)).var(correction=0))
