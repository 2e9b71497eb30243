"""Trainings by fairseq's own trainer in this process, on dummy data or a small corpus, and what they leave."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from fairseq_cli import preprocess, train

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from support.models import SIZE, task

DUMMY = ["--task=dummy_mt", "--dict-size=20", "--dataset-size=16", "--src-len=4", "--tgt-len=4", "--batch-size=2"]
DUMMY += ["--disable-validation", "--no-epoch-checkpoints", "--share-all-embeddings", "--encoder-max-relative-length=2"]
LAYOUTS = {
    "single": [],
    "half": ["--fp16", "--fp16-no-flatten-grads"],
    "half-memory-efficient": ["--memory-efficient-fp16"],
    "half-flat": ["--fp16"],
}


def fairseq_train(monkeypatch: pytest.MonkeyPatch, data: list[str], save: Path, *more: str) -> dict[int, float]:
    """Train in this process; the learning rate of each update, by the number of updates before it."""
    rates: dict[int, float] = {}
    stock = Trainer.train_step

    def train_step(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        rates[self.get_num_updates()] = self.get_lr()
        return stock(self, *args, **kwargs)

    fixed = ["--arch=dlcl_transformer", "--optimizer=adam", "--lr=0.01", "--lr-scheduler=inverse_sqrt_reset"]
    fixed += ["--warmup-updates=2", "--cpu", "--num-workers=0", f"--save-dir={save}", "--fp16-init-scale=4"]
    size = [f"--{name.replace('_', '-')}={value}" for name, value in SIZE.items()]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "train_step", train_step)
        patch.setattr(sys, "argv", ["fairseq-train"])
        args = options.parse_args_and_arch(options.get_training_parser(), [*data, *fixed, *size, *more])
        distributed_utils.call_main(convert_namespace_to_omegaconf(args), train.main)
    return rates


def moments(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the optimizer keeps for each parameter, by the names that the model built from the options gives them."""
    own = state["cfg"]["model"]
    config = DLCLTransformerConfig(**{key: value for key, value in own.items() if key != "_name"})
    model = DLCLTransformerModel.build_model(config, task())
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    kept, (group,) = state["last_optimizer_state"]["state"], state["last_optimizer_state"]["param_groups"]
    if len(group["params"]) > 1:
        assert group["params"] == list(range(len(parameters)))
        return {name: kept[number] for number, name in enumerate(parameters) if number in kept}
    if not kept:
        return {}
    result: dict[str, dict[str, Any]] = {name: {"step": kept[0]["step"]} for name in parameters}
    for key in ("exp_avg", "exp_avg_sq"):
        place = 0
        for name, parameter in parameters.items():
            result[name][key] = kept[0][key][place : place + parameter.numel()].view_as(parameter)
            place += parameter.numel()
        assert place == len(kept[0][key])
    return result


def binarised_text(folder: Path, *, pieces: bool = False) -> Path:
    """A data folder of two small languages, made in `folder`: forty sentences, and with `pieces` one of cut words."""
    draw = random.Random(1)
    for split, sentences in (("train", 40), ("valid", 8), ("test", 6)):
        for language in "ab":
            words = [f"{language}{number}" for number in range(8)]
            lines = [" ".join(draw.choices(words, k=draw.randint(3, 6))) + "\n" for _ in range(sentences)]
            if pieces and split == "train":
                lines.append(" ".join(f"{language}@@ {number}" for number in range(8)) + "\n")
            (folder / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    prefixes = [f"--{split}pref={folder / split}" for split in ("train", "valid", "test")]
    with pytest.MonkeyPatch.context() as monkeypatch:
        command = ["fairseq-preprocess", "--source-lang=a", "--target-lang=b", "--joined-dictionary"]
        monkeypatch.setattr(sys, "argv", [*command, *prefixes, f"--destdir={folder / 'data'}"])
        preprocess.cli_main()
    return folder / "data"
