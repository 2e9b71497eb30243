"""DS-Init, depth-scaled initialisation (Zhang 2019, EMNLP, arXiv 1908.11365).

Every matrix of layer l, counted from 1 separately in encoder and decoder, is drawn from

    U(-g a / sqrt(l), g a / sqrt(l)),  g = sqrt(6 / (fan_in + fan_out))           (11)

The standard deviation thus falls as 1 / sqrt(l); `a` is --ds-init-alpha. This is the paper's rule; its released code
scales the variance, not the bound, by 1 / sqrt(l). Biases of these matrices start as zeros. Parameters outside the
layers keep fairseq's values.
"""

import math
from typing import Any

from torch import nn

from deepnmt.model.initializers.initializer import InitializerOptions
from deepnmt.model.initializers.weights import matrices, zero_bias


def ds_init(model: Any, options: InitializerOptions) -> None:
    """Set the matrices of the layers of a `dlcl_transformer` by (11)."""
    for stack in ("encoder", "decoder"):
        # A layer with several places counts at its first one.
        pattern = options.stack(stack).pattern
        for number, layer in enumerate(getattr(model, stack).deep_layers()):
            depth = pattern.index(number) + 1
            for _, matrix in matrices(layer):
                nn.init.xavier_uniform_(matrix.weight, gain=options.ds_init_alpha / math.sqrt(depth))
                zero_bias(matrix)
