"""The weights of fairseq in 2019, and thus of the published code of DLCL, SDT, sublayer skipping and Admin.

In layers whose attention matrices are all d x d on the input side,

    query, key, value    Xavier-uniform of one fused 3d x d matrix, which is a gain of 1 / sqrt(2)
    all other matrices   Xavier-uniform: the attention's output, and both of the feed-forward sublayer
    all their biases     0

fairseq 0.12 draws the attention's matrices alike. It draws feed-forward matrices from
U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), and biases at random. At 512 x 2048 channels this is 0.91 times the deviation
here for the first matrix, and 0.46 times for the second. Parameters outside the layers keep fairseq's values.
"""

import math
from typing import Any

from torch import nn

from deepnmt.model.initializers.initializer import InitializerOptions
from deepnmt.model.initializers.weights import QUERY_KEY_VALUE, matrices, zero_bias


def fairseq_2019(model: Any, options: InitializerOptions) -> None:
    """Set the matrices of the layers of a `dlcl_transformer`."""
    for stack in (model.encoder, model.decoder):
        for layer in stack.deep_layers():
            for name, matrix in matrices(layer):
                nn.init.xavier_uniform_(matrix.weight, gain=1 / math.sqrt(2) if name in QUERY_KEY_VALUE else 1.0)
                zero_bias(matrix)
