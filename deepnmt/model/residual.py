"""The residual connection: a sublayer's input, scaled, plus its output.

    plain      x + F(x)
    DeepNorm   a x + F(x), a by (4) from the depths of both stacks     (Wang 2022, arXiv 2203.00555)
    Admin      w * x + F(x), w one trained vector of C channels, (14)  (Liu 2020, EMNLP, arXiv 2004.08249)

The positions of the layer norms, and the weights inside F, are other axes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """One sublayer's `scale * x + F(x)`, of `width` channels, C.

    If `trained`, a trained vector `weight` takes the place of the constant; it starts as ones.
    """

    def __init__(self, width: int, scale: float = 1.0, trained: bool = False) -> None:
        super().__init__()
        self.scale = scale
        self.weight = nn.Parameter(torch.ones(width)) if trained else None

    def forward(self, x: Tensor, branch: Tensor | None) -> Tensor:
        """Return the sum, T x B x C, of a sublayer's input and output; a skipped sublayer's output is missing."""
        if self.weight is not None:
            x = x * self.weight
        elif self.scale != 1.0:
            x = x * self.scale
        return x if branch is None else x + branch


def plain_scale(stack: str, encoder_layers: int, decoder_layers: int) -> float:
    """Return 1 for either stack."""
    return 1.0


def deepnorm_scale(stack: str, encoder_layers: int, decoder_layers: int) -> float:
    """Return `a` of (4) for the stack "encoder" or "decoder"."""
    if stack == "encoder":
        return float(0.81 * (encoder_layers**4 * decoder_layers) ** (1 / 16))
    return float((3 * decoder_layers) ** (1 / 4))


@dataclass(frozen=True)
class ResidualRule:
    """One value of --residual-scale.

    Attributes:
        scale: the constant of a stack, given the model's numbers of encoder and decoder layers
        trained: a trained vector replaces the constant
    """

    scale: Callable[[str, int, int], float] = plain_scale
    trained: bool = False


RESIDUALS = {
    "plain": ResidualRule(),
    "deepnorm": ResidualRule(scale=deepnorm_scale),
    "admin": ResidualRule(trained=True),
}
