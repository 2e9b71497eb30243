"""Log-probabilities of given types at each position, without ever holding the logits of a batch.

Shapes: N positions, C channels, V types.

The use of the log-probabilities is unknown when they are computed. The logits of some positions are therefore made in
the forward pass, and again in the backward pass.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from deepnmt.kernels.projection import pieces


def reference(h: Tensor, W: Tensor, target: Tensor) -> Tensor:
    """Return what `linear_log_probs` does by the formula, for readers and tests."""
    return (h @ W.t()).log_softmax(-1).gather(1, target[:, None]).squeeze(1)


def linear_log_probs(features: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """Return log softmax(weight @ h) at the target of each of the features h, N, in float32 at least.

    Features are N x C, the weight V x C, and the target N types.
    """

    def some_log_probs(some_features: Tensor, weight: Tensor, some_target: Tensor) -> Tensor:
        logits = torch.mm(some_features, weight.t())
        exact = torch.promote_types(logits.dtype, torch.float32)
        return torch.log_softmax(logits, dim=1, dtype=exact).gather(1, some_target.unsqueeze(1)).squeeze(1)

    found = [
        checkpoint(some_log_probs, features[some], weight, target[some], use_reentrant=False, preserve_rng_state=False)
        for some in pieces(len(target), len(weight), features.device)
    ]
    return torch.cat(found) if found else features.sum(1)
