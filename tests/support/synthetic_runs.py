"""Back-translation with a model of fairseq's, whose weights are random."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch
from fairseq.data import Dictionary

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from support.checkpoints import checkpoint
from support.models import SIZE, scramble, task
from support.substitution import SOURCE, TARGET, monolingual, sentences, substitution_data

LINES = 100
OPTIONS = ["--method", "sampling", "--batch-size", "2"]


def back_command(folder: Path) -> list[str]:
    """The words of the command without OUT and options; data, text and checkpoint are made in `folder`."""
    data = substitution_data(folder / "data")
    config = DLCLTransformerConfig(**{**SIZE, "dropout": 0.0, "max_target_positions": 8})
    torch.manual_seed(1)
    model = DLCLTransformerModel.build_model(config, task(Dictionary.load(str(data / "dict.de.txt"))))
    scramble(model)
    cfg = {
        "model": {**dataclasses.asdict(config), "_name": "dlcl_transformer"},
        "task": {"_name": "translation", "source_lang": TARGET, "target_lang": SOURCE},
    }
    torch.save({**checkpoint(), "cfg": cfg, "model": model.state_dict()}, folder / "model.pt")
    mono = monolingual(folder, data, TARGET, sentences(LINES, seed=5), [])
    return ["back", str(folder / "model.pt"), str(data), str(mono)]
