"""DeepNorm's initialisation, the counterpart of its residual in `model/residual.py` (Wang 2022, arXiv 2203.00555).

With L encoder and M decoder layers, value, output and feed-forward matrices are Xavier-normal with gain b,

    encoder    b = 0.87 (L^4 M)^(-1/16)
    decoder    b = (12 M)^(-1/4)                                                  (4)

and query and key matrices with gain 1. Biases of these matrices start as zeros; embeddings and other parameters outside
the layers keep fairseq's values.
"""

from typing import Any

from torch import nn

from deepnmt.model.initializers.initializer import InitializerOptions
from deepnmt.model.initializers.weights import QUERY_AND_KEY, matrices, zero_bias


def deepnorm(model: Any, options: InitializerOptions) -> None:
    """Set the matrices of the layers of a `dlcl_transformer` by (4)."""
    encoder_layers, decoder_layers = options.stack("encoder").layers, options.stack("decoder").layers
    gains = {
        "encoder": 0.87 * (encoder_layers**4 * decoder_layers) ** (-1 / 16),
        "decoder": (12 * decoder_layers) ** (-1 / 4),
    }
    for stack, gain in gains.items():
        for layer in getattr(model, stack).deep_layers():
            for name, matrix in matrices(layer):
                nn.init.xavier_normal_(matrix.weight, gain=1.0 if name in QUERY_AND_KEY else gain)
                zero_bias(matrix)
