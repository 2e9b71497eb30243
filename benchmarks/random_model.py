"""Checkpoints of untrained models whose translations are all of one length, with a data folder that fits them.

What a search costs depends on sizes and lengths, not on what a model has learned. Weights are random, but for two rows
of the projection to the vocabulary: padding is never likely, and the end symbol is where it is wanted. Both are fitted
to the decoder's features by least squares.
"""

from __future__ import annotations

import dataclasses
import json
import random
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

TYPES, SHORTEST, LONGEST, END = 9_800, 8, 18, 14
PAD, EOS, FIRST = 1, 2, 4
# Logits: random ones reach some 13.
NEVER, SURE = -20.0, 40.0


def sentences(number: int) -> list[list[str]]:
    """Sources in subwords."""
    draw = random.Random(1)
    return [
        [f"w{draw.randrange(TYPES - FIRST)}" for _ in range(draw.randint(SHORTEST, LONGEST))] for _ in range(number)
    ]


def data_folder(folder: Path) -> Path:
    """A new folder with dictionaries and a record of the text steps."""
    folder.mkdir()
    types = "".join(f"w{number} 1\n" for number in range(TYPES - FIRST))
    for language in ("de", "en"):
        (folder / f"dict.{language}.txt").write_text(types, "utf-8")
    record = {"source_lang": "de", "target_lang": "en", "lowercase": False, "pretokenized": True}
    (folder / "preprocess.json").write_text(json.dumps(record), "utf-8")
    return folder


def shortlist() -> Any:
    """Shortlists of 1,000 frequent types and eight candidates for each source type, twice as many as Multi30k has."""
    from deepnmt.search.shortlist import Shortlist

    candidates = np.random.default_rng(1).integers(FIRST, TYPES, (TYPES, 8))
    candidates = np.concatenate([np.arange(TYPES)[:, np.newaxis], candidates], axis=1)
    return Shortlist(np.arange(FIRST, FIRST + 1000), candidates, TYPES)


def checkpoint(path: Path, options: Mapping[str, Any]) -> Path:
    """A new checkpoint of a model of these options."""
    import deepnmt
    from deepnmt.checkpoints.file import write
    from deepnmt.checkpoints.state import new_contents
    from deepnmt.model.config import DLCLTransformerConfig
    from deepnmt.model.transformer import NAME, DLCLTransformerModel

    deepnmt.register()
    torch.manual_seed(1)
    types, config = dictionary(), DLCLTransformerConfig(**options, decoder_learned_pos=True, dropout=0.0)
    model = DLCLTransformerModel.build_model(config, Namespace(source_dictionary=types, target_dictionary=types))
    with torch.no_grad():
        _end_after(model.eval())
    task = {"_name": "translation", "data": ".", "source_lang": "de", "target_lang": "en", "left_pad_source": True}
    cfg = {"model": {**dataclasses.asdict(config), "_name": NAME}, "task": task}
    write(new_contents(cfg, model.state_dict()), path)
    return path


def dictionary() -> Any:
    """The types of `data_folder`."""
    from fairseq.data import Dictionary

    types = Dictionary()
    for number in range(TYPES - FIRST):
        types.add_symbol(f"w{number}")
    return types


def _end_after(model: Any) -> None:
    """Make every translation `END` subwords long."""
    decoder, output = model.decoder, model.decoder.output_projection.weight
    norm = decoder.layer_norm if decoder.layer_norm is not None else decoder.layers[-1].final_layer_norm
    norm.bias.fill_(0.5)
    decoder.embed_positions.weight[PAD + 1 :].mul_(3 * decoder.embed_scale)
    output.mul_(3)
    source = torch.cat([torch.randint(FIRST, TYPES, (96, END)), torch.full((96, 1), EOS)], 1)
    encoded = model.encoder(source, src_lengths=torch.full((96,), END + 1))
    target = torch.randint(FIRST, TYPES, (96, 2 * END))
    # A search repeats itself.
    target[::2, END // 2 :] = target[::2, :1]
    target[:, 0] = EOS
    features = decoder.extract_features(target, encoder_out=encoded)[0]  # B x T x C
    wanted = torch.where(torch.arange(2 * END) < END, NEVER, SURE).expand(len(target), -1)
    output[EOS] = _fitted(features, wanted)
    output[PAD] = _fitted(features, torch.full_like(wanted, NEVER))


def _fitted(features: Tensor, wanted: Tensor) -> Tensor:
    """The vector, C, whose products with features, B x T x C, are nearest to what is wanted, B x T."""
    rows, values = features.flatten(0, 1).double(), wanted.flatten().double()
    ridge = torch.eye(rows.size(1), dtype=torch.float64)
    return torch.linalg.solve(rows.t() @ rows + ridge, rows.t() @ values).float()
