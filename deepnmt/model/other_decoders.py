"""fairseq's LSTM and convolutional decoders behind this package's encoder: two architectures of their own.

The encoder runs once for each sentence, a decoder once for each word (Chen 2018, ACL, arXiv 1804.09849). A cheap
decoder therefore saves much, and the encoder's depth costs little.

    dlcl_transformer_lstm        an LSTM with attention and input feeding (Luong 2015, EMNLP, arXiv 1508.04025). With
                                 m, the mean of the encoder's output over a sentence, each layer begins at
                                 h_0 = W_h m + b_h,  c_0 = W_c m + b_c                               (52)
    dlcl_transformer_lightconv   convolutions over the last K words (Wu 2019, ICLR, arXiv 1901.10430). Their weights
                                 depend on the present word (dynamic) or not (lightweight):
                                 F(x)_t = sum_k softmax(W x_t)_k x_(t-K+k),  k = 1 ... K             (53)

An option that such a model does not have is unknown to its architecture. fairseq's own search translates.

Shapes: T x B x C is time, batch, channel; L layers.
"""

# No postponed annotations here: fairseq builds its command line from the types of the fields.

import dataclasses
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any, ClassVar, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import FairseqEncoderDecoderModel, register_model
from fairseq.models.lightconv import LightConvDecoder
from fairseq.models.lstm import Linear, LSTMDecoder
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor, nn

import deepnmt
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig, to_transformer_config
from deepnmt.model.encoder import DeepEncoder
from deepnmt.model.fast_dropout import use_fast_dropout
from deepnmt.model.frozen_layers import freeze, frozen_layers
from deepnmt.model.transformer import NAME
from deepnmt.model.validate import check
from deepnmt.options.option_table import described

FIELDS = {each.name: each for each in dataclasses.fields(DLCLTransformerConfig)}
ENCODER = (
    *("embed_path", "embed_dim", "ffn_embed_dim", "layers", "attention_heads", "normalize_before", "learned_pos"),
    *("layerdrop", "groups", "share_layers", "freeze", "max_relative_length", "norm", "word_dropout", "skip"),
)
BOTH = (
    *(f"encoder_{name}" for name in ENCODER),
    *(name for name in FIELDS if name.startswith("dlcl_")),
    *("relative_positions", "skip_schedule", "skip_scale"),
    *("dropout", "attention_dropout", "activation_dropout", "fast_dropout"),
    *("max_source_positions", "max_target_positions", "no_token_positional_embeddings"),
    *("decoder_embed_path", "decoder_embed_dim", "decoder_layers"),
    *("share_decoder_input_output_embed", "share_all_embeddings"),
)
OF_CONVOLUTIONS = tuple(f"decoder_{name}" for name in ("ffn_embed_dim", "attention_heads", "normalize_before"))


def _options(name: str, taken: tuple[str, ...], more: type = FairseqDataclass) -> Any:
    """Return a dataclass of options of `DLCLTransformerConfig`, and the further ones of another dataclass."""
    fields = [
        (each, FIELDS[each].type, dataclasses.field(default=FIELDS[each].default, metadata=FIELDS[each].metadata))
        for each in taken
    ]
    return dataclasses.make_dataclass(name, fields, bases=(more,))


@dataclasses.dataclass
class ConvolutionOptions(FairseqDataclass):  # type: ignore[misc]
    """The options of the convolutions."""

    decoder_conv_type: ChoiceEnum(["dynamic", "lightweight"]) = described(  # type: ignore[valid-type]
        "dynamic", "weights of the decoder's convolutions: of each word (dynamic), or the same for all (lightweight)"
    )
    decoder_kernel_sizes: str = described(
        "15", "number of words that the decoder's convolutions see: one for all layers, or one for each, such as 3,7,15"
    )


class RecurrentDecoder(LSTMDecoder):  # type: ignore[misc]
    """fairseq's LSTM decoder, whose first state (52) comes from a Transformer's encoder.

    Args:
        config: options of both architectures
        dictionary: of the target
        embed_tokens: embedding table, V x C
    """

    def __init__(self, config: DLCLTransformerConfig, dictionary: Any, embed_tokens: nn.Embedding) -> None:
        width = config.width("decoder")
        super().__init__(
            dictionary,
            embed_dim=width,
            hidden_size=width,
            out_embed_dim=width,
            num_layers=config.depth("decoder"),
            dropout_in=config.dropout,
            dropout_out=config.dropout,
            encoder_output_units=config.width("encoder"),
            pretrained_embed=embed_tokens,
            share_input_output_embed=config.share_all_embeddings or config.share_decoder_input_output_embed,
            max_target_positions=config.max_target_positions,
        )
        # fairseq has them only where the widths differ.
        self.encoder_hidden_proj, self.encoder_cell_proj = (Linear(config.width("encoder"), width) for _ in range(2))

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any = None,
        incremental_state: Optional[dict[str, dict[str, Optional[Tensor]]]] = None,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Return features, B x T x C, and attention for tokens, B x T, and the output of a Transformer's encoder."""
        states, padding = encoder_out["encoder_out"][0], encoder_out["encoder_padding_mask"][0].t()  # T x B x C, T x B
        mean = states.masked_fill(padding.unsqueeze(2), 0.0).sum(0) / (~padding).sum(0).unsqueeze(1)
        first = mean.expand(self.num_layers, -1, -1)  # L x B x C
        found: tuple[Tensor, Optional[Tensor]] = super().extract_features(
            prev_output_tokens, (states, first, first, padding), incremental_state
        )
        return found


class ConvolutionalDecoder(LightConvDecoder):  # type: ignore[misc]
    """fairseq's decoder of convolutions (53) and cross-attention.

    Args:
        config: options of both architectures
        kind: "dynamic" or "lightweight"
        kernels: K of each layer
        dictionary: of the target
        embed_tokens: embedding table, V x C
    """

    def __init__(
        self, config: DLCLTransformerConfig, kind: str, kernels: list[int], dictionary: Any, embed_tokens: nn.Embedding
    ) -> None:
        width = config.width("decoder")
        same = ("dropout", "max_target_positions", "no_token_positional_embeddings", "attention_dropout")
        of_decoder = ("embed_dim", "layers", "ffn_embed_dim", "attention_heads", "normalize_before")
        options = Namespace(
            **{name: getattr(config, name) for name in same},
            **{f"decoder_{name}": getattr(config, f"decoder_{name}") for name in of_decoder},
            share_decoder_input_output_embed=config.share_all_embeddings or config.share_decoder_input_output_embed,
            decoder_output_dim=width,
            decoder_conv_dim=width,
            decoder_learned_pos=False,
            decoder_glu=True,
            decoder_conv_type=kind,
            decoder_kernel_size_list=kernels,
            weight_softmax=True,
            weight_dropout=config.attention_dropout,
            relu_dropout=config.activation_dropout,
            input_dropout=0.0,
            adaptive_softmax_cutoff=None,
            tie_adaptive_weights=False,
        )
        super().__init__(options, dictionary, embed_tokens)


class OtherDecoderModel(FairseqEncoderDecoderModel):  # type: ignore[misc]
    """A model of this package's encoder and another decoder."""

    OPTIONS: ClassVar[Any]

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the architecture's options."""
        gen_parser_from_dataclass(parser, cls.OPTIONS(), delete_default=True)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "OtherDecoderModel":
        """Build the model of a configuration: the architecture's dataclass, a Namespace, or a checkpoint's mapping.

        Raises:
            UserError: options that are out of range or exclude each other
        """
        deepnmt.register()
        names = [each.name for each in dataclasses.fields(cls.OPTIONS) if each.name != "_name"]
        given = {name: getattr(cfg, name, getattr(cls.OPTIONS, name)) for name in names}
        config = DLCLTransformerConfig.from_options(Namespace(**given, **cls.unused()))
        source, target = task.source_dictionary, task.target_dictionary
        check(config, joined=source == target)
        faults = list(cls.faults(config, Namespace(**given)))
        if config.sums > 1:
            # These decoders read one output.
            faults.append(f"--encoder-groups {config.encoder_groups} cannot be combined with --arch {cls.name()}")
        if faults:
            raise UserError(*faults)
        if getattr(getattr(task, "cfg", None), "left_pad_target", False):
            raise UserError(f"--left-pad-target cannot be combined with --arch {cls.name()}")
        tables = [_table(config, "encoder", source)]
        tables.append(tables[0] if config.share_all_embeddings else _table(config, "decoder", target))
        encoder = DeepEncoder(to_transformer_config(config), source, tables[0])
        model = cls(encoder, cls.decoder_of(config, Namespace(**given), target, tables[1]))
        freeze(encoder.layers, frozen_layers(config.encoder_freeze, config.depth("encoder")))
        if config.fast_dropout:
            use_fast_dropout(model)
        return model

    @classmethod
    def name(cls) -> str:
        """Return the name of the architecture."""
        return next(name for name, model in MODELS.items() if model is cls)

    @classmethod
    def unused(cls) -> dict[str, Any]:
        """Return values of options of `DLCLTransformerConfig` that the architecture lacks."""
        return {"decoder_groups": "none"}

    @classmethod
    def faults(cls, config: DLCLTransformerConfig, given: Namespace) -> Iterator[str]:
        """Yield further faults of the options."""
        yield from ()

    @classmethod
    def decoder_of(cls, config: DLCLTransformerConfig, given: Namespace, target: Any, table: nn.Embedding) -> Any:
        """Return a new decoder."""
        raise NotImplementedError


class LSTMModel(OtherDecoderModel):
    """A Transformer's encoder and `RecurrentDecoder`."""

    OPTIONS = _options("LSTMOptions", BOTH)

    @classmethod
    def unused(cls) -> dict[str, Any]:
        """See `OtherDecoderModel`."""
        return {**super().unused(), "decoder_attention_heads": 1}

    @classmethod
    def decoder_of(cls, config: DLCLTransformerConfig, given: Namespace, target: Any, table: nn.Embedding) -> Any:
        """See `OtherDecoderModel`."""
        return RecurrentDecoder(config, target, table)


class LightConvModel(OtherDecoderModel):
    """A Transformer's encoder and `ConvolutionalDecoder`."""

    OPTIONS = _options("LightConvOptions", (*BOTH, *OF_CONVOLUTIONS), ConvolutionOptions)

    @classmethod
    def faults(cls, config: DLCLTransformerConfig, given: Namespace) -> Iterator[str]:
        """See `OtherDecoderModel`."""
        kinds = ("dynamic", "lightweight")
        if str(given.decoder_conv_type) not in kinds:
            yield f"--decoder-conv-type must be {' or '.join(kinds)}, but is {given.decoder_conv_type}"
        if not _kernels(given):
            must = f"whole numbers from 1, one or {given.decoder_layers} of them, such as 15 or 3,7"
            yield f"--decoder-kernel-sizes must be {must}, but is {given.decoder_kernel_sizes}"
        if config.width("encoder") != config.width("decoder"):
            must = f"--encoder-embed-dim {config.width('encoder')}"
            yield f"--decoder-embed-dim must be {must}, but is {config.width('decoder')}"

    @classmethod
    def decoder_of(cls, config: DLCLTransformerConfig, given: Namespace, target: Any, table: nn.Embedding) -> Any:
        """See `OtherDecoderModel`."""
        return ConvolutionalDecoder(config, str(given.decoder_conv_type), _kernels(given), target, table)


def _kernels(given: Namespace) -> list[int]:
    """Return the size of each layer's convolution; empty if the option is faulty."""
    texts, layers = str(given.decoder_kernel_sizes).split(","), int(given.decoder_layers)
    sizes = [int(text) if text.isdecimal() else 0 for text in texts]
    return [] if 0 in sizes or len(sizes) not in (1, layers) else sizes * (layers // len(sizes))


def _table(config: DLCLTransformerConfig, stack: str, dictionary: Any) -> nn.Embedding:
    """Return the embedding table of a stack."""
    path = getattr(config, f"{stack}_embed_path")
    table: nn.Embedding = TransformerModelBase.build_embedding(config, dictionary, config.width(stack), path)
    return table


MODELS: dict[str, type[OtherDecoderModel]] = {f"{NAME}_lstm": LSTMModel, f"{NAME}_lightconv": LightConvModel}


def register() -> None:
    """Register both architectures with fairseq, for `--arch`."""
    for name, model in MODELS.items():
        register_model(name, dataclass=model.OPTIONS)(model)
