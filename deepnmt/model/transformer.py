"""`dlcl_transformer`, the fairseq model; `architectures.py` registers it."""

import dataclasses
from argparse import ArgumentParser
from typing import Any, Optional

import torch
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor, nn

import deepnmt
from deepnmt.errors import UserError
from deepnmt.model.banded_embedding import BandedEmbedding, cutoffs_of
from deepnmt.model.config import DLCLTransformerConfig, to_transformer_config
from deepnmt.model.decoder import PLACES, DeepDecoder
from deepnmt.model.encoder import DeepEncoder
from deepnmt.model.fast_dropout import use_fast_dropout
from deepnmt.model.frozen_embeddings import freeze_embeddings
from deepnmt.model.frozen_layers import freeze, frozen_layers
from deepnmt.model.initializers import INITIALIZERS
from deepnmt.model.layer_list import wrap_layers
from deepnmt.model.skipping import zero_grads_for
from deepnmt.model.transparent import part_of
from deepnmt.model.two_sided import TwoSidedEncoder
from deepnmt.model.validate import check

NAME = "dlcl_transformer"


class DLCLTransformerModel(TransformerModelBase):  # type: ignore[misc]
    """Transformer whose connections, norms, residuals, positions, attention, skipping and initial weights are options.

    With both stacks' groups `none` and the other options at their defaults, it is fairseq's own Transformer: same
    parameter names, same values.
    """

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Add the options of `DLCLTransformerConfig`, without defaults, which named architectures set."""
        gen_parser_from_dataclass(parser, DLCLTransformerConfig(), delete_default=True)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "DLCLTransformerModel":
        """Build the model of a configuration: fairseq's dataclass, a Namespace, or a checkpoint's mapping.

        Raises:
            UserError: options that are out of range or exclude each other, all of them at once, or freeze everything
        """
        # Without the patches, fairseq's trainer would silently train this model differently.
        deepnmt.register()
        own = DLCLTransformerConfig.from_options(cfg)
        check(own, joined=task.source_dictionary == task.target_dictionary)
        if own.base_layers and not torch.distributed.is_initialized():
            raise UserError(f"--base-layers must be 0 in one process, but is {own.base_layers}")
        stock = to_transformer_config(own)
        model: DLCLTransformerModel = super().build_model(stock, task)
        initializer = INITIALIZERS[str(own.initializer)]
        initializer(model, own)
        stacks = [model.encoder, model.decoder]
        if own.two_sided:
            backward = model.add_backward_decoder(own)
            initializer(nn.ModuleDict({"encoder": model.encoder, "decoder": backward}), own)
            stacks.append(backward)
        if own.fused_encoder is not None:
            model.add_frozen_encoder(own)
        if own.fast_dropout:
            use_fast_dropout(model)
        freeze_embeddings(model, own)
        for stack in stacks:
            name = "encoder" if stack is model.encoder else "decoder"
            freeze(stack.layers, frozen_layers(getattr(own, f"{name}_freeze"), own.depth(name)))
            wrap_layers(stack, stock)
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise UserError("--encoder-freeze, --decoder-freeze and --freeze-embeddings must leave something to train")
        return model

    @classmethod
    def build_encoder(cls, cfg: Any, src_dict: Any, embed_tokens: nn.Module) -> DeepEncoder:
        """Return the stack; called by `build_model`. Raises `UserError` if a band of the embeddings has no type."""
        own, types = cfg.deep, len(src_dict)
        if cutoffs := cutoffs_of(own.encoder_embedding_cutoffs):
            if cutoffs[-1] >= types:
                given = own.encoder_embedding_cutoffs
                raise UserError(f"--encoder-embedding-cutoffs must be below the {types} types, but is {given}")
            width, factor = own.width("encoder"), own.embedding_factor
            embed_tokens = BandedEmbedding(types, width, src_dict.pad(), cutoffs, factor)
        return (TwoSidedEncoder if cfg.deep.two_sided else DeepEncoder)(cfg, src_dict, embed_tokens)

    @classmethod
    def build_decoder(cls, cfg: Any, tgt_dict: Any, embed_tokens: nn.Embedding) -> DeepDecoder:
        """Return the stack; called by `build_model`."""
        return DeepDecoder(cfg, tgt_dict, embed_tokens, no_encoder_attn=cfg.no_cross_attention)

    def add_frozen_encoder(self, config: DLCLTransformerConfig) -> None:
        """Give the encoder a frozen one of its options, whose weights are to be loaded."""
        plain = to_transformer_config(dataclasses.replace(config, fused_encoder=None))
        dictionary = self.encoder.dictionary
        table = self.build_embedding(plain, dictionary, config.width("encoder"))
        frozen = self.build_encoder(plain, dictionary, table).eval()
        self.encoder.frozen = frozen.requires_grad_(requires_grad=False)

    def add_backward_decoder(self, config: DLCLTransformerConfig) -> DeepDecoder:
        """Give a two-sided model the decoder that `TwoSidedEncoder` needs, and return it."""
        plain = to_transformer_config(dataclasses.replace(config, two_sided=False))
        self.encoder.backward_decoder = DeepDecoder(plain, self.decoder.dictionary, self.decoder.embed_tokens)
        return self.encoder.backward_decoder  # type: ignore[no-any-return]

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
        prev_output_tokens: Optional[Tensor],
        return_all_hiddens: bool = True,
        features_only: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
        backward: bool = False,
        text: Optional[Tensor] = None,
        places: Optional[Tensor] = None,
        source_only: bool = False,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return the results of fairseq's Transformer for the same arguments.

        With `backward`, "backward_output" holds the predictions of a two-sided model's backward decoder for the
        reversed reference. With `text`, B x T, "text_output" holds the features of the language model in the decoder.
        The decoder's inputs have the positions `places`, B x T, from 0. With `source_only`, the result is the encoder's
        output, B x S x C, and `prev_output_tokens` are not read.
        """
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths, return_all_hiddens=return_all_hiddens)
        if source_only:
            # The last decoder layer's, of several.
            states = part_of(encoder_out["encoder_out"][0], self.decoder.sums - 1, self.decoder.sums)
            return zero_grads_for([self.decoder], states).transpose(0, 1), {}
        if places is not None:
            encoder_out = {**encoder_out, PLACES: [places]}
        output, extra = self.decoder(
            prev_output_tokens,
            encoder_out=encoder_out,
            features_only=features_only,
            alignment_layer=alignment_layer,
            alignment_heads=alignment_heads,
            src_lengths=src_lengths,
            return_all_hiddens=return_all_hiddens,
        )
        if backward:
            output_of = self.encoder.backward_output
            extra = {**extra, "backward_output": output_of(prev_output_tokens, encoder_out, features_only)}
        if text is not None:
            extra = {**extra, "text_output": self.decoder.language_model(text)}
        return output, extra
