"""Lipschitz-constrained initialisation (Xu 2020, ACL, arXiv 1911.03179).

    matrices       U(-1 / sqrt(fan_in), 1 / sqrt(fan_in)), their biases 0
    embeddings     U(-sqrt(2 / (d + V)), sqrt(2 / (d + V))) for a table of V rows of d channels, padding 0       (13)
    layer norms    gain 1, bias 0

The paper covers all of them, wherever they are: also learned positions, and an output projection that is not
an embedding table.
"""

import math
from typing import Any

from torch import nn

from deepnmt.model.initializers.initializer import InitializerOptions
from deepnmt.model.initializers.weights import loaded_embeddings, zero_bias, zero_padding


def lipschitz(model: Any, options: InitializerOptions) -> None:
    """Set the matrices, embeddings and layer norms of a `dlcl_transformer` by (13)."""
    tables = [module for module in model.modules() if isinstance(module, nn.Embedding)]
    tied = {id(table.weight) for table in tables}
    loaded = loaded_embeddings(model, options)
    for table in tables:
        if table not in loaded:
            bound = math.sqrt(2 / (table.embedding_dim + table.num_embeddings))
            nn.init.uniform_(table.weight, -bound, bound)
            zero_padding(table)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.reset_parameters()
        elif isinstance(module, nn.Linear) and id(module.weight) not in tied:
            bound = 1 / math.sqrt(module.in_features)
            nn.init.uniform_(module.weight, -bound, bound)
            zero_bias(module)
