"""Dropout whose random numbers cost a quarter of torch's on the CPU.

There, torch draws one number after the other, one for each element. Here four elements share 64 random bits. Each has
16 of them, and is dropped if their number is below round(65536 p). Kept elements are divided by the exact keep rate,
so the expectation is exact; the drop rate is at most 1/131072 away from p. The bits come from torch's generator, so
seeds and restarts work as usual.
"""

import torch
from torch import Tensor

LEVELS = 65536


def reference(x: Tensor, p: float) -> Tensor:
    """Return x with dropout, from a number for each element, for readers and tests."""
    kept = torch.randint(LEVELS, x.shape) >= round(LEVELS * p)
    return x * kept / (1 - round(LEVELS * p) / LEVELS)


def dropout_noise(x: Tensor, p: float) -> Tensor:
    """What dropout of probability p multiplies a tensor by, of the tensor's shape and type: 0, or 1 / (1 - rate)."""
    dropped = round(LEVELS * p)
    if dropped >= LEVELS:
        return torch.zeros_like(x)
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    # Numbers from -32768 to 32767, and in their place 1 for what is kept: torch is slow with the type bool.
    kept = words.view(torch.int16)[: x.numel()].ge_(dropped - LEVELS // 2)
    return kept.view(x.shape).to(x.dtype).mul_(LEVELS / (LEVELS - dropped))
