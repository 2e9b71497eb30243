"""Fast paths, and the log's explanation if one is not taken.

A fast path has a function `obstacle(...)`, which returns why this call cannot take it, or None. `may_take` decides by
it, and logs each reason once per process:

    if may_take("fast attention", obstacle(query, key)):
        return fast(query, key)
    return plain(query, key)

A reason is a fixed text, without shapes or values, so that it is logged once and not with every batch.

DEEPNMT_REFERENCE=1, which --reference-kernels sets, turns all of them off: a fault that persists is not one of theirs.
"""

import logging

import torch
from torch import nn

from deepnmt.reference import OPTION, REFERENCE, reference_wanted

logger = logging.getLogger(__name__)

# A hook would not be called.
HOOKED = "a projection has hooks"
EXACT = (torch.float32, torch.float64)
# Paths and reasons already logged.
logged: set[tuple[str, str]] = set()


def may_take(path: str, obstacle: str | None) -> bool:
    """Return whether a fast path is free; log each obstacle once.

    The obstacle, if any, completes "fast attention is not used: ...".
    """
    if reference_wanted():
        obstacle = f"{REFERENCE} or {OPTION} turns all fast paths off"
    if obstacle is None:
        return True
    if (path, obstacle) not in logged:
        logged.add((path, obstacle))
        logger.info(f"{path} is not used: {obstacle}")
    return False


def linear_obstacle(linear: nn.Module) -> str | None:
    """Return the reason why a kernel cannot use the weights of a map instead of calling it, or None."""
    if type(linear) is not nn.Linear or linear.bias is None:
        return "a projection is not a plain linear map with a bias"
    if linear.weight.dtype not in EXACT:
        return "the model is in half precision"
    if has_hooks(linear):
        return HOOKED
    return None


def has_hooks(module: nn.Module) -> bool:
    """Return whether a call of the module differs from its class's `forward`."""
    if "forward" in vars(module):
        return True
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks)
