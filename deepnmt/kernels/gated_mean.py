"""A mean of the positions so far, whose gates say how much of it is kept.

    c_t = f_t * c_(t-1) + (1 - f_t) * v_t

    dv_t = (1 - f_t) * g_t,   df_t = (c_(t-1) - v_t) * g_t,   g_t = dL/dc_t + f_(t+1) * g_(t+1)

On the CPU, each pass takes one operation for each position, over all sentences and channels. On other devices, where
a launch takes longer than that, a position is combined with those 1, 2, 4, ... before it. Both only multiply by
numbers from 0 to 1 and never divide, so that no length overflows.

Shapes: T positions; the others are any, such as B x C. The numbers are float32 at least, of one type.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from deepnmt.kernels.projection import on_cpu


def reference(gates: Tensor, values: Tensor, before: Tensor) -> Tensor:
    """Return all c by the formula above, for readers and tests; autograd makes its backward pass."""
    found = []
    for gate, value in zip(gates, values):
        before = gate * before + (1 - gate) * value
        found.append(before)
    return torch.stack(found)


def gated_mean(gates: Tensor, values: Tensor, before: Tensor) -> Tensor:
    """Return c of all positions, T x ..., for f and v, T x ..., and c before the first one."""
    result: Tensor = _GatedMean.apply(gates, values, before)  # type: ignore[no-untyped-call]
    return result


class _GatedMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, values: Tensor, before: Tensor) -> Tensor:
        if on_cpu(gates.device):
            found = torch.empty_like(values)
            last = before
            for gate, value, place in zip(gates.unbind(), values.unbind(), found.unbind()):
                last = torch.lerp(value, last, gate, out=place)
        else:
            found = _recurrence(gates, (1 - gates) * values, before)
        ctx.save_for_backward(gates, values, before, found)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, values, before, found = ctx.saved_tensors
        if on_cpu(gates.device):
            total = gradient.clone()
            places = total.unbind()
            for gate, place, later in zip(reversed(gates.unbind()), reversed(places[:-1]), reversed(places)):
                place.addcmul_(gate, later)
        else:
            # The gate of a position multiplies what the position after it has collected.
            following = torch.cat([gates[1:], torch.zeros_like(gates[:1])]).flip(0)
            total = _recurrence(following, gradient.flip(0), torch.zeros_like(before)).flip(0)
        earlier = torch.cat([before.unsqueeze(0), found[:-1]])
        return (earlier - values).mul_(total), (1 - gates).mul_(total), gates[0] * total[0]


def _recurrence(gates: Tensor, terms: Tensor, before: Tensor) -> Tensor:
    """Return x_t = f_t x_(t-1) + u_t of all positions, by steps of twice the length each."""
    terms = torch.cat([before.unsqueeze(0), terms])
    gates = torch.cat([torch.zeros_like(gates[:1]), gates])
    distance = 1
    while distance < len(gates):
        terms = torch.cat([terms[:distance], torch.addcmul(terms[distance:], gates[distance:], terms[:-distance])])
        gates = torch.cat([gates[:distance], gates[distance:] * gates[:-distance]])
        distance *= 2
    return terms[1:]
