"""Xavier-uniform matrices: the vanilla Transformer of the papers on deep models.

Every matrix of the layers is drawn from U(-g, g), g = sqrt(6 / (fan_in + fan_out)), which is (11) without its depth.
fairseq's default is smaller. For query, key and value it is 1 / sqrt(2) of this. For the feed-forward matrices it is
U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), which is near (13). Biases of these matrices start as zeros. Parameters outside
the layers keep fairseq's values.
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
