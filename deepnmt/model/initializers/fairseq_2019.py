"""The weights that fairseq of 2019 drew, and with it the published code of DLCL, SDT, sublayer skipping and Admin.

Of layers in which all matrices that attention reads with are d x d,

    query, key, value    Xavier-uniform of one fused 3d x d matrix, which is a gain of 1 / sqrt(2)
    all other matrices   Xavier-uniform: the attention's output, and both of the feed-forward sublayer
    all their biases     0

fairseq 0.12 draws the attention's matrices alike, but feed-forward matrices from U(-1 / sqrt(fan_in), 1 / sqrt(fan_in))
and biases at random: at 512 x 2048 channels that is 0.91 times the deviation here for the first of them, and 0.46 times
for the second. What is outside the layers stays fairseq's.
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
