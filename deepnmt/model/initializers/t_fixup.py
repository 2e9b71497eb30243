"""T-Fixup: weights with which a Transformer needs neither layer norms nor warm-up (Huang 2020, ICML).

With L encoder layers, M decoder layers and embeddings of d channels, matrices are Xavier-uniform with the gain

    decoder's value, output and feed-forward matrices    (9 M)^(-1/4)              (8)
    encoder's value, output and feed-forward matrices    0.67 L^(-1/4)             (9)
    all others, queries and keys too                     1

and embeddings are N(0, 1/d), times (9 L)^(-1/4) the source's or (9 M)^(-1/4) the target's. A table shared by both is
scaled once, with L. Learned positions keep fairseq's values, and so does an output projection other than the target's.

This follows the paper, which does not mention biases: here they start as zeros in the layers. The released code
(layer6ai-labs/T-Fixup) differs in two points, and `t_fixup_released` follows it:

    queries and keys                   gain 1 / sqrt(2), fairseq's, which it undoes for values alone
    biases of queries, keys, values    U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), as in nn.Linear
"""

import math
from typing import Any

from torch import nn

from deepnmt.model.initializers.initializer import InitializerOptions
from deepnmt.model.initializers.weights import (
    QUERY_AND_KEY,
    QUERY_KEY_VALUE,
    loaded_embeddings,
    matrices,
    outer_matrices,
    zero_bias,
    zero_padding,
)


def t_fixup(model: Any, options: InitializerOptions) -> None:
    """Set the matrices and the token embeddings of a `dlcl_transformer` by (8) and (9)."""
    source_depth, target_depth = options.stack("encoder").layers, options.stack("decoder").layers
    for matrix in outer_matrices(model):
        nn.init.xavier_uniform_(matrix.weight)
    _set_layers(model.encoder, 0.67 * source_depth ** (-1 / 4))
    _set_layers(model.decoder, (9 * target_depth) ** (-1 / 4))

    # Where both stacks share their table, the encoder's depth replaces the decoder's.
    depths = {model.decoder.embed_tokens: target_depth, model.encoder.embed_tokens: source_depth}
    loaded = loaded_embeddings(model, options)
    for table, depth in depths.items():
        if table not in loaded:
            nn.init.normal_(table.weight, std=table.embedding_dim ** (-1 / 2) * (9 * depth) ** (-1 / 4))
            zero_padding(table)


def t_fixup_released(model: Any, options: InitializerOptions) -> None:
    """Set the weights as the released code does."""
    t_fixup(model, options)
    for stack in (model.encoder, model.decoder):
        for layer in stack.deep_layers():
            for name, matrix in matrices(layer):
                if name in QUERY_AND_KEY:
                    nn.init.xavier_uniform_(matrix.weight, gain=1 / math.sqrt(2))
                if name in QUERY_KEY_VALUE and matrix.bias is not None:
                    bound = 1 / math.sqrt(matrix.in_features)
                    nn.init.uniform_(matrix.bias, -bound, bound)


def _set_layers(stack: Any, scale: float) -> None:
    for layer in stack.deep_layers():
        for name, matrix in matrices(layer):
            nn.init.xavier_uniform_(matrix.weight, gain=1.0 if name in QUERY_AND_KEY else scale)
            zero_bias(matrix)
