"""Small models and batches for the tests, without data on disk."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModelBase
from torch import Tensor

import deepnmt  # noqa: F401  registers the model
from deepnmt.model.config import DLCLTransformerConfig, to_transformer_config
from deepnmt.model.transformer import DLCLTransformerModel

ROOT = Path(__file__).resolve().parents[2]
SIZE = {
    f"{stack}_{name}": value
    for stack in ("encoder", "decoder")
    for name, value in {"embed_dim": 16, "ffn_embed_dim": 24, "attention_heads": 4, "layers": 3}.items()
}
PLAIN = {"encoder_groups": "none", "decoder_groups": "none"}
PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}


def dictionary(words: int = 20) -> Dictionary:
    """A dictionary of `words` types and the four special symbols."""
    result = Dictionary()
    for index in range(words):
        result.add_symbol(f"w{index}")
    return result


def task(source: Dictionary | None = None, target: Dictionary | None = None) -> Namespace:
    """What building a model asks of a task; one dictionary for both languages unless two are given."""
    source = source or dictionary()
    return Namespace(source_dictionary=source, target_dictionary=target or source)


def build(options: dict[str, Any] | None = None, seed: int = 1, **more: Any) -> DLCLTransformerModel:
    """A model of `SIZE` with float64 parameters, in evaluation mode; all parameters are random, norms and W too."""
    torch.manual_seed(seed)
    config = DLCLTransformerConfig(**{**SIZE, "dropout": 0.0, **(options or {}), **more})
    model = DLCLTransformerModel.build_model(config, task())
    scramble(model)
    return model.double().eval()


def build_stock(options: dict[str, Any], seed: int = 1) -> TransformerModelBase:
    """fairseq's own Transformer of the same options."""
    torch.manual_seed(seed)
    config = DLCLTransformerConfig(**{**SIZE, **PLAIN, "dropout": 0.0, **options})
    return TransformerModelBase.build_model(to_transformer_config(config), task())


def scramble(model: torch.nn.Module) -> None:
    """Move every parameter off its initial value, so that a norm or a weight left out shows."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0


def batch(source: list[list[int]], target: list[list[int]], left_pad_source: bool = True) -> dict[str, Tensor]:
    """The net input of sentences without specials: eos ends the source, and stands first in the shifted target."""
    pad, eos = 1, 2
    source = [[*sentence, eos] for sentence in source]
    target = [[eos, *sentence] for sentence in target]
    long_source, long_target = max(map(len, source)), max(map(len, target))

    def padded(sentence: list[int], length: int, left: bool) -> list[int]:
        filler = [pad] * (length - len(sentence))
        return filler + sentence if left else sentence + filler

    return {
        "src_tokens": torch.tensor([padded(s, long_source, left_pad_source) for s in source]),
        "src_lengths": torch.tensor([len(s) for s in source]),
        "prev_output_tokens": torch.tensor([padded(t, long_target, False) for t in target]),
    }


EXAMPLE = batch([[5, 6, 7, 8, 9], [10, 11, 12]], [[6, 7, 8, 9], [13, 14, 5, 6, 7, 8]])


def logits(model: torch.nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    """B x T x V."""
    with torch.no_grad():
        result: Tensor = model(**inputs)[0]
    return result


def incremental_logits(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """The logits, B x T x V, of decoding one position after the other with cached keys and values."""
    with torch.no_grad():
        encoder_out = model.encoder(inputs["src_tokens"], src_lengths=inputs["src_lengths"])
        state: dict[str, Any] = {}
        tokens = inputs["prev_output_tokens"]
        steps = [
            model.decoder(tokens[:, : length + 1], encoder_out=encoder_out, incremental_state=state)[0]
            for length in range(tokens.size(1))
        ]
    return torch.cat(steps, dim=1)
