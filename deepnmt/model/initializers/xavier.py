"""Xavier-uniform matrices: the vanilla Transformer of the papers on deep models.

Every matrix of the layers is drawn from U(-g, g), g = sqrt(6 / (fan_in + fan_out)), which is (11) without its depth.
fairseq's default is smaller: 1 / sqrt(2) of it for query, key and value, and U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)) for
the feed-forward matrices, which is near (13). Biases of these matrices start as zeros, and what is outside the layers
stays fairseq's.
"""

from typing import Any

from torch import nn

from deepnmt.model.initializers.initializer import InitializerOptions
from deepnmt.model.initializers.weights import matrices, zero_bias


def xavier(model: Any, options: InitializerOptions) -> None:
    """Set the matrices of the layers of a `dlcl_transformer`."""
    for stack in (model.encoder, model.decoder):
        for layer in stack.deep_layers():
            for _, matrix in matrices(layer):
                nn.init.xavier_uniform_(matrix.weight)
                zero_bias(matrix)
