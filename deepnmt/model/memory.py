"""The least memory of a model, from its options alone: a model that cannot fit is refused before it is built."""

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import STACKS
from deepnmt.model.sublayers import CROSS_ATTENTION, SELF_ATTENTION


def least_parameters(config: DLCLTransformerConfig, types: tuple[int, int]) -> int:
    """Return the number of parameters in matrices, which are nearly all; biases, norms and histories are not included.

    The types are counted in the dictionaries of source and target.
    """
    layers = sum(len(set(config.stack(stack).pattern)) * _layer(config, stack) for stack in STACKS)
    decoder = config.stack("decoder")
    # Layers with another one's attention weights lack its query and key matrices.
    following = decoder.layers - len(decoder.leaders)
    layers -= following * (2 * decoder.width**2)
    if config.shared_cross_attention:
        layers -= following * (decoder.width**2 + 2 * decoder.width * config.width("encoder"))
    layers -= config.decoder_lm_layers * 2 * (config.width("decoder") * (decoder.width + config.width("encoder")))
    if config.two_sided:
        # The backward decoder, and the forward one's second attention.
        width = config.width("decoder")
        layers += config.depth("decoder") * (_layer(config, "decoder") + 2 * width**2)
    source, target = (words * config.width(stack) for words, stack in zip(types, STACKS))
    tables = [target] if config.one_table else [source, target]
    if not (config.one_table or config.share_decoder_input_output_embed):
        tables.append(target)
    # Adaptive softmax and embeddings of other widths than the model's have smaller matrices.
    known = config.adaptive_softmax_cutoff is None and config.decoder_input_dim is config.decoder_output_dim is None
    known = known and config.encoder_embedding_cutoffs == "none"
    return layers + (sum(tables) if known else 0)


def _layer(config: DLCLTransformerConfig, stack: str) -> int:
    width, encoder_width = config.width(stack), config.width("encoder")
    sublayers = config.stack(stack).sublayers
    # Self-attention; query and output matrices, key and value matrices; the feed-forward sublayer.
    own = config.stack(stack).self_attention.matrices * width**2 if SELF_ATTENTION in sublayers else 0
    cross = 2 * width**2 + 2 * width * encoder_width if CROSS_ATTENTION in sublayers else 0
    return own + cross + 2 * width * int(getattr(config, f"{stack}_ffn_embed_dim"))
