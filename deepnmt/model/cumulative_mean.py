"""The mean of all positions so far, of merged attention (12) and of average attention (46).

    g_t = (x_1 + ... + x_t) / t

Shapes: T x B x C is time, batch, channel.
"""

from collections.abc import Mapping
from typing import Any, Optional

from torch import Tensor

from deepnmt.model.row_state import exact


def cumulative_mean(
    x: Tensor, padding: Optional[Tensor], saved: Optional[Mapping[str, Any]]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return g, T x B x C, in float32 at least, and the sum and the count after the last position.

    Args:
        x: the newest positions, T x B x C
        padding: B x T, true at padding, which is neither summed nor counted
        saved: sum and count of earlier positions, as returned
    """
    counted = x.new_ones(x.size(0), x.size(1), 1, dtype=exact(x.dtype))
    if padding is not None:
        absent = padding.bool().t().unsqueeze(-1)
        x, counted = x.masked_fill(absent, 0.0), counted.masked_fill(absent, 0.0)
    # In half precision the sum overflows and the count is inexact after 2048 positions.
    total, count = x.cumsum(0, dtype=counted.dtype), counted.cumsum(0)
    if saved:
        total, count = total + saved["sum"], count + saved["count"]
    return total / count.clamp(min=1.0), {"sum": total[-1], "count": count[-1]}
