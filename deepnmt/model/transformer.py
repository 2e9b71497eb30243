"""`dlcl_transformer`, the fairseq model; `architectures.py` registers it."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerModelBase
from torch import nn

import deepnmt
from deepnmt.model.config import DLCLTransformerConfig, to_transformer_config
from deepnmt.model.decoder import DeepDecoder
from deepnmt.model.encoder import DeepEncoder
from deepnmt.model.fast_dropout import use_fast_dropout
from deepnmt.model.initializers import INITIALIZERS
from deepnmt.model.layer_list import wrap_layers
from deepnmt.model.validate import check

NAME = "dlcl_transformer"


class DLCLTransformerModel(TransformerModelBase):  # type: ignore[misc]
    """Transformer whose connections, norms, residuals, positions, attention, skipping and initial weights are options.

    With both stacks' groups `none` and the other options left alone it is fairseq's own Transformer: same parameter
    names, same values.
    """

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the options of `DLCLTransformerConfig`, without defaults, which named architectures set."""
        gen_parser_from_dataclass(parser, DLCLTransformerConfig(), delete_default=True)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> DLCLTransformerModel:
        """Build the model of a configuration: fairseq's dataclass, a Namespace, or a checkpoint's mapping.

        Raises:
            UserError: options that are out of range or exclude each other, all of them at once
        """
        # Without the patches, fairseq's trainer would train this model in another way and not say so.
        deepnmt.register()
        own = DLCLTransformerConfig.from_options(cfg)
        check(own, joined=task.source_dictionary == task.target_dictionary)
        stock = to_transformer_config(own)
        model: DLCLTransformerModel = super().build_model(stock, task)
        INITIALIZERS[str(own.initializer)](model, own)
        if own.fast_dropout:
            use_fast_dropout(model)
        for stack in (model.encoder, model.decoder):
            wrap_layers(stack, stock)
        return model

    @classmethod
    def build_encoder(cls, cfg: Any, src_dict: Any, embed_tokens: nn.Embedding) -> DeepEncoder:
        """Return the stack; called by `build_model`."""
        return DeepEncoder(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Any, embed_tokens: nn.Embedding) -> DeepDecoder:
        """Return the stack; called by `build_model`."""
        return DeepDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)
