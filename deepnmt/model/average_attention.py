"""Average attention (Zhang 2018, ACL, arXiv 1805.00631): a mean and two gates in place of self-attention.

    g_t = (x_1 + ... + x_t) / t, or with --average-attention-ffn  g_t = FFN((x_1 + ... + x_t) / t)
    [i_t; f_t] = sigmoid(W [x_t; g_t] + b)                                                      (46)
    F(x)_t = i_t * x_t + f_t * g_t

x is the sublayer's input, after the norm where that comes first. The authors' code leaves the paper's FFN out, and says
that it is not needed.

Shapes: T x B x C is time, batch, channel; W is 2C x 2C, and * is elementwise.
"""
# Twin: deepnmt/search/incremental/recurrent_steps.py computes this for one position in a search; change both.
# Twin: deepnmt/engines/onnx/recurrent.py computes it in ONNX Runtime; change this too.

from typing import Optional

import torch
from torch import Tensor

from deepnmt.model.cumulative_mean import cumulative_mean
from deepnmt.model.row_state import AttentionFree
from deepnmt.model.ssru import MakeMap


class AverageAttention(AttentionFree):
    """The function of a layer's first sublayer.

    The incremental state is a sum and a count for each hypothesis, whatever the number of steps.

    Args:
        width: C
        make_map: returns a new linear map
        inner: inner width of the FFN; 0: no FFN
    """

    def __init__(self, width: int, make_map: MakeMap, inner: int = 0) -> None:
        super().__init__()
        self.gate_proj = make_map(2 * width, 2 * width, True)
        self.fc1 = make_map(width, inner, True) if inner else None
        self.fc2 = make_map(inner, width, True) if inner else None

    def compute(
        self, x: Tensor, padding: Optional[Tensor], before: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See `AttentionFree`; the mean leaves padding out."""
        mean, last = cumulative_mean(x, padding, before)
        return self.gated(x, mean.type_as(x)), last

    def gated(self, x: Tensor, mean: Tensor) -> Tensor:
        """Return F, ... x C, of inputs and of the means up to each, ... x C."""
        if self.fc1 is not None and self.fc2 is not None:
            mean = self.fc2(self.fc1(mean).relu())
        of_input, of_mean = self.gate_proj(torch.cat([x, mean], dim=-1)).sigmoid().chunk(2, dim=-1)
        gated: Tensor = of_input * x + of_mean * mean
        return gated
