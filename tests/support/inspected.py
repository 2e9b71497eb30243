"""What is inspected, and what comes of it: reports, pages, a toy corpus with a recipe and a checkpoint."""

from __future__ import annotations

import math
import random
import sys
from argparse import Namespace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import torch
from fairseq import options as fairseq_options
from fairseq import tasks
from fairseq.data import indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from deepnmt.inspection import (
    Report,
    Sublayer,
)
from support.models import dictionary, scramble
from support.sublayer_reference import EOS, NAMES


def made_up(label: str = "one", encoder: int = 2, factor: float = 1.0, dlcl: bool = True, **odd: Any) -> Report:
    """A report of round numbers; `odd` replaces some of encoder layer 1, self_attn."""
    sublayers = [
        Sublayer(stack, layer, name, 3.0 * layer * factor, 4.0 * layer * factor, 1.0, 0.25, 0.125, 0.5, 7.0)
        for stack, depth in (("encoder", encoder), ("decoder", 1))
        for layer in range(1, depth + 1)
        for name in NAMES[stack]
    ]
    sublayers[0] = Sublayer(**{**vars(sublayers[0]), **odd})
    matrix = [[1.0, 0.0, 0.0], [-0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]
    return Report(label, 4, 9.5, sublayers, {"encoder": matrix} if dlcl else {})


ODD = {"gradient_norm": math.inf, "error_norm": math.nan, "branch_share": None, "weight_max": -math.inf}


class Reader(HTMLParser):
    """Collects the text and the addresses of a page, and checks that its tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "data", "action", "srcset")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


RECIPE = """
arch: dlcl_transformer
encoder-embed-dim: 16
decoder-embed-dim: 16
encoder-ffn-embed-dim: 24
decoder-ffn-embed-dim: 24
encoder-attention-heads: 4
decoder-attention-heads: 4
encoder-layers: 3
decoder-layers: 2
encoder-norm: pre
decoder-norm: pre
dropout: 0.2
share-all-embeddings: true
criterion: label_smoothed_cross_entropy
label-smoothing: 0.1
optimizer: adam
lr: 0.001
max-tokens: 60
num-workers: 0
seed: 5
checkpoint-activations: true
"""


def write_data(folder: Path, words: int = 20, pairs: int = 40) -> Path:
    folder.mkdir()
    symbols = dictionary(words)
    generator = random.Random(3)
    for language in ("de", "en"):
        symbols.save(str(folder / f"dict.{language}.txt"))
        for split, shortest, sentences in (("train", 2, pairs), ("long", 70, 3)):
            path = folder / f"{split}.de-en.{language}"
            builder = indexed_dataset.make_builder(f"{path}.bin", impl="mmap", vocab_size=len(symbols))
            for _ in range(sentences):
                length = generator.randrange(shortest, shortest + 7)
                tokens = [generator.randrange(4, 4 + words) for _ in range(length)]
                builder.add_item(torch.tensor([*tokens, EOS]))
            builder.finalize(f"{path}.idx")
    return folder


def configuration(recipe: str, data: Path) -> Any:
    """What fairseq-train would have, from the text of a recipe."""
    pairs = dict(line.split(": ") for line in recipe.split("\n") if line)
    arguments = [f"--{key}" if value == "true" else f"--{key}={value}" for key, value in pairs.items()]
    args = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), [str(data), *arguments])
    return convert_namespace_to_omegaconf(args)


class Toy(Namespace):
    data: Path
    recipe: Path
    checkpoint: Path
    model: Any


def make_toy(folder: Path, text: str = RECIPE) -> Toy:
    """Data, a recipe, and a checkpoint with random parameters as fairseq's trainer saves it."""
    data, recipe = write_data(folder / "data"), folder / "toy.yaml"
    recipe.write_text(text, encoding="utf-8")
    argv = sys.argv
    sys.argv = ["pytest"]
    cfg = configuration(text.replace("checkpoint-activations: true\n", ""), data)
    cfg.checkpoint.no_save_optimizer_state = True
    sys.argv = argv
    whole = tasks.setup_task(cfg.task)
    torch.manual_seed(9)
    model = whole.build_model(cfg.model)
    scramble(model)
    trainer = Trainer(cfg, whole, model, whole.build_criterion(cfg.criterion))
    trainer.lr_step_begin_epoch(1)
    trainer.save_checkpoint(str(folder / "best.pt"), {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}})
    return Toy(data=data, recipe=recipe, checkpoint=folder / "best.pt", model=model, cfg=cfg, task=whole)
