"""The weights that the formulas cover, under fairseq's names.

No formula covers relative positions or the weights of histories and residuals, and no initialiser touches them.
Embeddings loaded from a file (--encoder-embed-path, --decoder-embed-path) stay as loaded.
"""

from collections.abc import Iterator
from typing import Any

from torch import nn

from deepnmt.model.initializers.initializer import InitializerOptions

# The gates of (45) and (46) compare as queries and keys do, and the W of (45) makes values: no paper treats them.
QUERY_AND_KEY = ("q_proj", "k_proj", "forget_proj", "gate_proj")
QUERY_KEY_VALUE = (*QUERY_AND_KEY, "v_proj")


def matrices(layer: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """Yield the matrices of a layer, and the last parts of their names, such as q_proj, out_proj and fc1."""
    for name, module in layer.named_modules():
        if isinstance(module, nn.Linear):
            yield name.rpartition(".")[2], module


def outer_matrices(model: Any) -> Iterator[nn.Linear]:
    """Yield the matrices between embeddings, layers and output: of quantisation noise, and of a change of width."""
    for stack in (model.encoder, model.decoder):
        for name in ("quant_noise", "project_out_dim"):
            matrix = getattr(stack, name, None)
            if matrix is not None:
                yield matrix


def loaded_embeddings(model: Any, options: InitializerOptions) -> list[nn.Embedding]:
    """Return the embedding tables whose values come from a file."""
    paths = {"encoder": options.encoder_embed_path, "decoder": options.decoder_embed_path}
    return [getattr(model, stack).embed_tokens for stack, path in paths.items() if path]


def zero_bias(matrix: nn.Linear) -> None:
    """Set the bias, if there is one, to zero."""
    if matrix.bias is not None:
        nn.init.zeros_(matrix.bias)


def zero_padding(table: nn.Embedding) -> None:
    """Set the padding symbol's row, if there is one, to zero."""
    if table.padding_idx is not None:
        nn.init.zeros_(table.weight[table.padding_idx])
