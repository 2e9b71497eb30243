"""The options of `dlcl_transformer`: fairseq's own for the Transformer, flat, and this package's."""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import dataclasses
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig, QuantNoiseConfig
from omegaconf import DictConfig, OmegaConf

from deepnmt.errors import UserError
from deepnmt.model.dlcl import HistoryOptions
from deepnmt.model.frozen_embeddings import FROZEN_STACKS
from deepnmt.model.initializers import INITIALIZERS
from deepnmt.model.norm_position import NORM_POSITIONS
from deepnmt.model.residual import RESIDUALS
from deepnmt.model.self_attention import KINDS
from deepnmt.model.stack import STACKS
from deepnmt.model.stack_choices import StackChoices
from deepnmt.options.option_table import described

NORMS = ["auto", *NORM_POSITIONS]
FROZEN = ["none", *FROZEN_STACKS]

NESTED = {"encoder": EncDecBaseConfig, "decoder": DecoderConfig, "quant_noise": QuantNoiseConfig}


def _flat_fields(config: type, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield fairseq's nested fields by the names of its command line: `encoder.layers` as encoder_layers."""
    for option in dataclasses.fields(config):
        if option.name in NESTED:
            yield from _flat_fields(NESTED[option.name], f"{option.name}_")
        elif option.name in ("input_dim", "output_dim"):
            # fairseq refers to its nested configuration here, which a flat one lacks.
            help_text = "width of the decoder's embedding or output (default: --decoder-embed-dim)"
            yield f"{prefix}{option.name}", Optional[int], field(default=None, metadata={"help": help_text})
        elif not option.name.startswith("_"):
            yield f"{prefix}{option.name}", option.type, field(default=option.default, metadata=dict(option.metadata))


# Flat, since fairseq ignores the command line for a registered dataclass that is nested.
FlatTransformerConfig: Any = dataclasses.make_dataclass(
    "FlatTransformerConfig", list(_flat_fields(TransformerConfig)), bases=(FairseqDataclass,)
)


@dataclass
class DLCLTransformerConfig(StackChoices, FlatTransformerConfig):  # type: ignore[misc]
    """fairseq's `TransformerConfig` under its command line's names, and the axes that this package adds."""

    # fmt: off
    encoder_groups: str = described(
        "1", "connections of the encoder: 1 for DLCL, n for group-dense with groups of n layers, boundaries such as "
        "0,6,12,21 for ragged groups, none for a plain stack. With transparent or top, the layers are a plain stack; "
        "each decoder layer (top: all of them together) reads a trained mean of their outputs")
    decoder_groups: str = described("1", "connections of the decoder: a number, boundaries or none, as in the encoder")
    dlcl_granularity: str = described(
        "scalar", "weights per layer output: scalar, a number n for one per slice of 1/n of the channels, or vector "
        "for one per channel")
    dlcl_init: ChoiceEnum(["mean", "one"]) = described(  # type: ignore[valid-type]
        HistoryOptions.init, "initial weights: the mean of the outputs, or one for each")
    dlcl_window: int = described(HistoryOptions.window, "number of latest outputs to combine (0: all)")
    dlcl_freeze: bool = described(HistoryOptions.freeze, "keep the weights as they were initialised")
    dlcl_softmax: bool = described(HistoryOptions.softmax, "normalise the weights of a row by a softmax")
    dlcl_dropout: float = described(HistoryOptions.dropout, "dropout probability on the combination")
    dlcl_embedding_norm: bool = described(
        HistoryOptions.embedding_norm, "normalise the embedding too before it is combined")
    encoder_share_layers: str = described(
        "none", "numbers of the encoder's layers, such as 0,0,1,1,2,2: layers with one number have the same weights")
    decoder_share_layers: str = described("none", "numbers of the decoder's layers, as --encoder-share-layers")
    encoder_freeze: str = described(
        "none", "layers of the encoder, such as 1,2,3, that keep the weights that they begin the training with")
    decoder_freeze: str = described("none", "layers of the decoder that keep their weights, as --encoder-freeze")
    encoder_max_relative_length: int = described(
        0, "largest relative distance in the encoder; others are clipped (0: no relative positions)")
    decoder_max_relative_length: int = described(0, "as --encoder-max-relative-length, in the decoder's self-attention")
    relative_positions: ChoiceEnum(["keys", "keys-values"]) = described(  # type: ignore[valid-type]
        "keys-values", "add relative positions to the keys, or to keys and values")
    encoder_norm: ChoiceEnum(NORMS) = described(  # type: ignore[valid-type]
        "auto", "layer norms of the encoder: after each sublayer (post), before it (pre), none at all, or post with "
        "the layer's input added again before the last norm (b2t). auto is pre with --encoder-normalize-before, else "
        "post")
    decoder_norm: ChoiceEnum(NORMS) = described(  # type: ignore[valid-type]
        "auto", "layer norms of the decoder, as --encoder-norm")
    residual_scale: ChoiceEnum(list(RESIDUALS)) = described(  # type: ignore[valid-type]
        "plain", "factor of a sublayer's input in the residual connection: 1, DeepNorm's constant, or Admin's trained "
        "vector")
    initializer: ChoiceEnum(list(INITIALIZERS)) = described(  # type: ignore[valid-type]
        "default", "initial weights: fairseq's (default), fairseq's of 2019, or a method's for deep models, by the "
        "paper or by its released code")
    ds_init_alpha: float = described(1.0, "alpha of --initializer ds-init, in (0, 1]")
    encoder_embedding_cutoffs: str = described(
        "none", "types at which bands of the source dictionary begin, such as 1000,5000: each further band has smaller "
        "vectors, which a matrix of its own brings to --encoder-embed-dim")
    embedding_factor: int = described(4, "with --encoder-embedding-cutoffs, divisor of the width from band to band")
    freeze_embeddings: ChoiceEnum(FROZEN) = described(  # type: ignore[valid-type]
        "none", "embeddings that keep their initial values, such as those of --encoder-embed-path: of the source, the "
        "target, or both. The output layer is frozen, too, where it is the target's table")
    fused_encoder: Optional[str] = described(
        None, "checkpoint with a trained encoder of the same options; it stays frozen, and every layer also attends to "
        "its states")
    fused_drop: float = described(
        1.0, "with --fused-encoder, probability that one of a layer's two attentions is left out in training")
    merged_attention: bool = described(
        False, "a cumulative mean and the cross-attention in one sublayer, instead of self-attention")
    decoder_self_attention: ChoiceEnum(list(KINDS)) = described(  # type: ignore[valid-type]
        "full", "self-attention of the decoder: every position attends to all before it (full). Layers with the "
        "attention weights of another one (shared), a gated mean of all positions so far (average) or a recurrence "
        "(ssru) make translating faster")
    shared_attention_blocks: str = described(
        "2", "decoder layers with the same attention weights, for --decoder-self-attention shared: size of the "
        "blocks, or their boundaries, such as 0,1,4,6")
    shared_cross_attention: bool = described(
        False, "with --decoder-self-attention shared, blocks share the results of their cross-attention, too")
    average_attention_ffn: bool = described(
        False, "feed-forward layers on the mean of --decoder-self-attention average, as in its paper")
    encoder_word_dropout: float = described(
        0.0, "probability of zeroing the embedding of a source token in training, its end symbol excepted")
    decoder_word_dropout: float = described(
        0.0, "as --encoder-word-dropout, for decoder inputs, the first token excepted; targets stay")
    encoder_skip: float = described(0.0, "probability of skipping a sublayer of the encoder in training")
    decoder_skip: float = described(0.0, "as --encoder-skip, in the decoder")
    skip_schedule: ChoiceEnum(["linear", "constant"]) = described(  # type: ignore[valid-type]
        "linear", "let the probability grow linearly up to the last sublayer, or be the same in all")
    skip_scale: ChoiceEnum(["training", "inference"]) = described(  # type: ignore[valid-type]
        "training", "rescale kept sublayers in training, or all sublayers at inference")
    two_sided: bool = described(
        False, "let the decoder also attend to the states of a second decoder, which has translated the sentence from "
        "its end; trained by --criterion label_smoothed_cross_entropy_two_sided")
    decoder_lm_layers: int = described(
        0, "number of lowest decoder layers without cross-attention; they predict the next word of text in the target "
        "language, too, with --criterion label_smoothed_cross_entropy_lm")
    fast_dropout: bool = described(
        False, "draw dropout on the CPU from fewer random numbers; the rate is the same, the draws differ from "
        "fairseq's. With --attention-dropout above 0, training on the CPU needs it for fast attention. Autocast, half "
        "precision, quantisation noise and sentences of more than 128 tokens also switch fast attention off. "
        "--activation-dropout and activations other than relu switch the fast feed-forward sublayer off. The log "
        "reports each reason once")
    # fmt: on

    @classmethod
    def from_options(cls, options: Any) -> "DLCLTransformerConfig":
        """Return the configuration from a form of fairseq's: this dataclass, a Namespace, or a mapping of omegaconf.

        Raises:
            UserError: a mapping, as fairseq-hydra-train reads it, has an unknown key, or a value outside the option's
                choices
        """
        if isinstance(options, cls):
            return options
        is_mapping = isinstance(options, DictConfig)
        values = OmegaConf.to_container(options, resolve=True, enum_to_str=True) if is_mapping else dict(vars(options))
        assert isinstance(values, dict)
        names = {option.name for option in dataclasses.fields(cls)}
        unknown = sorted(str(name) for name in values if name not in names)
        if unknown and is_mapping:
            raise UserError(*(f"model.{name} is not an option of dlcl_transformer" for name in unknown))
        must = [each.name for each in dataclasses.fields(cls) if each.default is not None]
        empty = [name for name in must if values.get(name, 0) is None]
        if empty and is_mapping:
            raise UserError(*(f"model.{name} must have a value, but is null" for name in empty))
        config = cls(**{name: value for name, value in values.items() if name in names})
        if faults := list(config._choice_faults()):
            raise UserError(*faults)
        return config

    def _choice_faults(self) -> Iterator[str]:
        for option in dataclasses.fields(self):
            if isinstance(option.type, type) and issubclass(option.type, Enum):
                choices, value = [str(choice.value) for choice in option.type], str(getattr(self, option.name))
                if value not in choices:
                    name = option.name.replace("_", "-")
                    yield f"--{name} must be one of {', '.join(choices)}, but is {value}"


class NestedConfig(TransformerConfig):  # type: ignore[misc]
    """fairseq's nested form of the options, for its encoder, decoder and layers; `deep` has all options, flat."""

    deep: DLCLTransformerConfig


def to_transformer_config(config: DLCLTransformerConfig) -> NestedConfig:
    """Return fairseq's nested form."""
    names = {option.name for option in dataclasses.fields(FlatTransformerConfig)} - {"_name"}
    values = {name: getattr(config, name) for name in names}
    for stack in STACKS:
        # fairseq's own switch, which also adds the final layer norm.
        values[f"{stack}_normalize_before"] = config.norm(stack).before
    for name in ("decoder_input_dim", "decoder_output_dim"):
        if values[name] is None:
            values[name] = config.width("decoder")
    nested: NestedConfig = NestedConfig.from_namespace(Namespace(**values))
    nested.deep = config
    return nested
