"""Transparent attention: layers are joined only at the top of the encoder (Bapna 2018, EMNLP, arXiv 1808.07561).

The layers of the encoder are chained plainly. The decoder reads softmax-weighted sums of all their outputs and the
embedding, `y_0 .. y_L`:

    z_r = sum_{k=0..L} s[k, r] y_k,   s[k, r] = exp W[k, r] / sum_{j=0..L} exp W[j, r]          (64)

With pre-norm, the final norm of the encoder applies to each sum. `transparent` has a sum for each decoder layer, `top`
one sum for the whole decoder. `W` starts at zero: each sum is the mean.

Shapes: T x B x C is time, batch, channel; L layers, R sums. The sums leave the encoder side by side, T x B x RC.
"""
# Twin: deepnmt/engines/onnx/layers.py computes this in ONNX Runtime; change both.

from collections.abc import Sequence

import torch
from torch import Tensor, nn

# Its parameter in a state dict.
SUMS = "encoder.history.weight"


class TopSums(nn.Module):
    """The weights `W`, (L + 1) x R.

    Args:
        layers: L
        sums: R
    """

    def __init__(self, layers: int, sums: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layers + 1, sums))

    def matrix(self) -> Tensor:
        """Return the normalised weights `s`, (L + 1) x R."""
        return self.weight.softmax(dim=0)

    def forward(self, outputs: Sequence[Tensor]) -> Tensor:
        """Return the sums, R x T x B x C, of `y_0 .. y_L`, T x B x C each; for R = 1, without R."""
        sums = torch.mm(self.matrix().t(), torch.stack(list(outputs)).flatten(1)).view(-1, *outputs[0].shape)
        return sums[0] if len(sums) == 1 else sums

    def start(self) -> "TopPass":
        """Begin a forward pass through the encoder."""
        return TopPass(self)


class TopPass:
    """The outputs kept during one forward pass, with the methods of `deepnmt.model.dlcl.HistoryPass`."""

    def __init__(self, sums: TopSums) -> None:
        self.sums = sums
        self.outputs: list[Tensor] = []

    def input(self, index: int, x: Tensor) -> Tensor:
        """Return the input of layer `index` (from 0): `x`, the last running layer's output, or the embedding.

        A layer that LayerDrop leaves out passes its input on.
        """
        self.outputs += [x] * (index + 1 - len(self.outputs))
        return x

    def finish(self, x: Tensor) -> Tensor:
        """Return the sums; `x` is the output of the last layer that ran."""
        self.input(len(self.sums.weight) - 1, x)
        return self.sums(self.outputs)  # type: ignore[no-any-return]


def side_by_side(sums: Tensor) -> Tensor:
    """Return sums, R x T x B x C, as the encoder's output, T x B x RC; one without R stays as it is."""
    return sums if sums.dim() == 3 else sums.movedim(0, -2).flatten(-2)


def part_of(source: Tensor, layer: int, sums: int) -> Tensor:
    """Return the part, T x B x C, of an encoder's output, T x B x RC, that a decoder layer, from 0, reads."""
    if sums <= 1:
        return source
    return source.reshape(*source.shape[:-1], sums, -1)[..., layer, :].contiguous()
