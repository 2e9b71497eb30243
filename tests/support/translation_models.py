"""A small data folder with text and BPE, and checkpoints of random models that fit it, without any training."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary

from deepnmt.checkpoints.state import new_contents
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.preparation.subword_learning import learn_merges
from deepnmt.text.pipeline import TextPipeline
from deepnmt.text.subwords import CODES
from support.flow import ENGLISH, GERMAN
from support.models import SIZE, scramble, task
from support.numbered import words_of

VALID = 12


def write_data(folder: Path) -> Path:
    """What preprocess.sh leaves behind, as far as exporting and translating need it."""
    (folder / "text").mkdir(parents=True)
    record = {"source_lang": "de", "target_lang": "en", "lowercase": False, "pretokenized": False}
    (folder / "preprocess.json").write_text(json.dumps(record))
    for language, lines in (("de", GERMAN), ("en", ENGLISH)):
        (folder / "text" / f"train.{language}").write_bytes("".join(f"{line}\n" for line in lines * 3).encode())
    learn_merges(folder / CODES, 40, words_of(folder / "text" / "train.de", folder / "text" / "train.en"))
    counts: Counter[str] = Counter()
    for language, other, lines in (("de", "en", GERMAN), ("en", "de", ENGLISH)):
        settings = {**record, "source_lang": language, "target_lang": other}
        (folder / "preprocess.json").write_text(json.dumps(settings))
        pipeline = TextPipeline.read(folder)
        coded = [pipeline.encode(line) for line in (lines * VALID)[:VALID]]
        (folder / "text" / f"valid.bpe.{language}").write_bytes("".join(f"{line}\n" for line in coded).encode())
        counts.update(" ".join(coded).split())
    (folder / "preprocess.json").write_text(json.dumps(record))
    for language in ("de", "en"):
        lines = [f"{word} {count}\n" for word, count in counts.most_common()]
        (folder / f"dict.{language}.txt").write_bytes("".join(lines).encode())
    return folder


def write_checkpoint(path: Path, data: Path, seed: int = 1, **options: Any) -> Path:
    """A checkpoint of a random model in float32, with the options of a `dlcl_transformer`."""
    types = Dictionary.load(str(data / "dict.de.txt"))
    torch.manual_seed(seed)
    config = DLCLTransformerConfig(**{**SIZE, "dropout": 0.0, **options})
    model = DLCLTransformerModel.build_model(config, task(types))
    scramble(model)
    with torch.no_grad():
        # Probabilities that differ, so that translations do, in words and length.
        if model.decoder.output_projection is not None:
            model.decoder.output_projection.weight.mul_(3)
            model.decoder.output_projection.weight[types.eos()].mul_(1.5)
    cfg = {
        "model": {**dataclasses.asdict(config), "_name": "dlcl_transformer"},
        "task": {"_name": "translation", "data": str(data), "source_lang": "de", "target_lang": "en"},
    }
    torch.save(new_contents(cfg, model.state_dict()), path)
    return path
