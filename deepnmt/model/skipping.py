"""Sublayer skipping: in training, a sublayer's output is omitted, and not computed, with a given probability.

    x' = x + m F(x), m = 0 with probability p_l, one draw for each sublayer and update          (15)

    linear     p_l = rate * l / n, for sublayer l = 1..n of the stack   (Li 2021, AAAI, arXiv 2012.13866)
    constant   p_l = rate

To keep the expectation the same at inference, retained outputs are multiplied by 1 / (1 - p_l) in training, or by
1 - p_l at inference. The draw is a function of seed and update number alone. All data-parallel workers, all batches
accumulated for one update, a recomputed layer and a restarted run therefore skip the same sublayers.
"""

import random
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from deepnmt.model.stack import SkippingOptions


class SublayerSkipping(nn.Module):
    """Draws the factors of a stack's sublayers; its name distinguishes the draws of the stacks."""

    def __init__(self, name: str, layers: int, sublayers: int, options: SkippingOptions) -> None:
        super().__init__()
        self.name = name
        self.sublayers = sublayers
        self.options = options
        self.probabilities = options.probabilities(layers * sublayers)
        # fairseq seeds torch with --seed, in every worker alike, before it builds the model.
        self.seed = torch.initial_seed()
        self.update = 0

    def set_num_updates(self, update: int) -> None:
        """Take the number of the update; called by fairseq before each."""
        self.update = update

    def draw(self) -> list[tuple[float, ...]]:
        """Return for each layer the factors of its sublayers' outputs; 0: not to be computed."""
        factors = [self._factor(p, u) for p, u in zip(self.probabilities, self._uniform())]
        return [tuple(factors[i : i + self.sublayers]) for i in range(0, len(factors), self.sublayers)]

    def _factor(self, probability: float, uniform: float) -> float:
        if not self.training:
            return self.options.inference_factor(probability)
        if uniform < probability:
            return 0.0
        return 1.0 / (1.0 - probability) if self.options.scale_training else 1.0

    def _uniform(self) -> Iterable[float]:
        generator = random.Random(f"{self.seed} {self.update} {self.name}")
        return (generator.random() for _ in self.probabilities)


class _Unused(torch.autograd.Function):
    """The identity on its first argument; the others get gradients of zero."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.parameters = parameters
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        return (gradient, *(torch.zeros_like(parameter) for parameter in ctx.parameters))


def zero_grads_for(modules: Iterable[nn.Module], x: Tensor, *inputs: Tensor) -> Tensor:
    """Return `x`, giving the parameters of skipped modules zero gradients.

    PyTorch's distributed training waits for every parameter's gradient. An optimizer then treats a skipped parameter in
    one process as it does in several. `x` is the input of the sublayer, T x B x C; the other inputs of the modules, and
    their sources, get zero gradients, too.
    """
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    result: Tensor = _Unused.apply(x, *parameters, *inputs)  # type: ignore[no-untyped-call]
    return result
