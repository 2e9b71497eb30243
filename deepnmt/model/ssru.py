"""The simpler simple recurrent unit, SSRU (Kim 2019, WNGT, D19-5632): a recurrence in place of self-attention.

    f_t = sigmoid(W_f x_t + b_f)
    c_t = f_t * c_(t-1) + (1 - f_t) * (W x_t),   c_0 = 0                                        (45)
    F(x)_t = ReLU(c_t)

Shapes: T x B x C is time, batch, channel; W and W_f are C x C, and * is elementwise.
"""
# Twin: deepnmt/search/incremental/recurrent_steps.py computes this for one position in a search; change both.
# Twin: deepnmt/engines/onnx/recurrent.py computes it in ONNX Runtime; change this too.

from collections.abc import Callable
from typing import Optional

import torch
from torch import Tensor, nn

from deepnmt.kernels.gated_mean import gated_mean
from deepnmt.model.row_state import AttentionFree, exact

# Of the numbers of inputs and outputs, and whether there is a bias.
MakeMap = Callable[[int, int, bool], nn.Linear]


class SSRU(AttentionFree):
    """The function of a layer's first sublayer.

    The incremental state is c, one vector for each hypothesis, whatever the number of steps.

    Args:
        width: C
        make_map: returns a new linear map
    """

    def __init__(self, width: int, make_map: MakeMap) -> None:
        super().__init__()
        self.v_proj = make_map(width, width, False)
        self.forget_proj = make_map(width, width, True)

    def compute(
        self, x: Tensor, padding: Optional[Tensor], before: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """See `AttentionFree`; padding leaves c as it is."""
        gates, values = self.forget_proj(x), self.v_proj(x)
        gates, values = gates.to(exact(gates.dtype)).sigmoid(), values.to(exact(values.dtype))
        if padding is not None:
            absent = padding.bool().t().unsqueeze(-1)
            gates, values = gates.masked_fill(absent, 1.0), values.masked_fill(absent, 0.0)
        means = gated_mean(gates, values, before.get("mean", torch.zeros_like(values[0])))
        return means.relu().type_as(x), {"mean": means[-1]}
