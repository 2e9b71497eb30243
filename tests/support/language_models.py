"""Small language models: fairseq's transformer_lm."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

from deepnmt.checkpoints.state import new_contents
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


def save_language_model(folder: Path, dictionary: Dictionary, **given: Any) -> Path:
    """A language model's checkpoint, lm.pt, and its dictionary."""
    of_the_task = {**OF_THE_TASK, **{key: value for key, value in given.items() if key in OF_THE_TASK}}
    options = {key: value for key, value in dataclasses.asdict(config(**given)).items() if key not in OF_THE_TASK}
    cfg = {
        "model": {**options, **of_the_task, "_name": "transformer_lm"},
        "task": {"_name": "language_modeling", "data": "elsewhere"},
    }
    torch.save(new_contents(cfg, language_model(dictionary, **given).state_dict()), folder / "lm.pt")
    dictionary.save(str(folder / "dict.txt"))
    return folder / "lm.pt"
