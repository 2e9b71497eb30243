"""Small language models: fairseq's transformer_lm."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

from support.models import scramble

SIZE = {"decoder_embed_dim": 16, "decoder_ffn_embed_dim": 24, "decoder_attention_heads": 2, "decoder_layers": 2}
OF_THE_TASK = {"add_bos_token": False, "tokens_per_sample": 64, "max_target_positions": 64, "tpu": False}


def config(**options: Any) -> TransformerLanguageModelConfig:
    sizes = {**SIZE, "decoder_input_dim": 16, "decoder_output_dim": 16, "dropout": 0.0}
    return TransformerLanguageModelConfig(**{**sizes, **OF_THE_TASK, **options})


def language_model(dictionary: Dictionary, **options: Any) -> TransformerLanguageModel:
    """A model whose predictions differ from type to type."""
    torch.manual_seed(3)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = TransformerLanguageModel.build_model(config(**options), task)
    scramble(model)
    with torch.no_grad():
        model.decoder.output_projection.weight *= 10
    return model.eval()
