"""Train, average and use fairseq's text architectures: `python stock_architectures.py stock|plugin FOLDER MODEL...`.

The folder has `text`, of a translation, and `words`, of a language model. FOLDER/stock.json gets an object: losses of
each update and validation, and translations or the perplexity by the average of the checkpoints; or the error.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fairseq_cli.train
import numpy as np
import torch
from fairseq import checkpoint_utils, options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq.models import ARCH_MODEL_INV_REGISTRY
from fairseq.trainer import Trainer
from fairseq_cli import eval_lm, generate

ENCODER = "--encoder-embed-dim=8 --encoder-ffn-embed-dim=8 --encoder-layers=2 --encoder-attention-heads=2 --dropout=0"
DECODER = "--decoder-embed-dim=8 --decoder-ffn-embed-dim=8 --decoder-layers=2 --decoder-attention-heads=2"
BOTH, LM = f"{ENCODER} {DECODER}", f"{DECODER} --decoder-output-dim=8 --decoder-input-dim=8 --dropout=0"
KERNELS = "--decoder-kernel-size-list=[3,5]"
CONVOLUTIONS = "--decoder-layers=[(8,3)]*2 --decoder-embed-dim=8 --decoder-out-embed-dim=8 --dropout=0"
GATES = "--encoder-attention=False --decoder-attention=True --self-attention=True --project-input=False"
GATES += " --gated-attention=True --downsample=False --pretrained=False --pretrained-checkpoint="
GATES += " --multihead-self-attention-nheads=2 --multihead-attention-nheads=2 --encoder-attention-nheads=1"
TRANSLATES = "--task=translation --criterion=label_smoothed_cross_entropy --label-smoothing=0.1"
PREDICTS = "--task=language_modeling --tokens-per-sample=12 --sample-break-mode=eos --criterion=cross_entropy"
FILLS = "--task=translation_lev --criterion=nat_loss --label-smoothing=0.1"
# Of each model, the options of its named architectures; other models need sound, GPUs, or libraries that are not there.
MODELS = {
    "lstm": "--encoder-embed-dim=8 --encoder-hidden-size=8 --decoder-embed-dim=8 --decoder-hidden-size=8 "
    f"--decoder-out-embed-dim=8 --dropout=0 {TRANSLATES}",
    "lstm_lm": f"--decoder-embed-dim=8 --decoder-hidden-size=8 --decoder-out-embed-dim=8 --dropout=0 {PREDICTS}",
    "fconv": f"--encoder-embed-dim=8 --encoder-layers=[(8,3)]*2 {CONVOLUTIONS} {TRANSLATES}",
    "fconv_lm": f"{CONVOLUTIONS} {PREDICTS}",
    "fconv_self_att": f"--encoder-embed-dim=8 --encoder-layers=[(8,3)]*2 {CONVOLUTIONS} {GATES} {TRANSLATES}",
    "lightconv": f"{BOTH} {KERNELS} --encoder-conv-dim=8 --decoder-conv-dim=8 --encoder-kernel-size-list=[3,5] "
    f"--attention-dropout=0 --weight-dropout=0 {TRANSLATES}",
    "lightconv_lm": f"{LM} {KERNELS} --attention-dropout=0 {PREDICTS}",
    "transformer": f"{BOTH} {TRANSLATES}",
    "transformer_align": f"{BOTH} {TRANSLATES}",
    "bart": f"{BOTH} --max-source-positions=64 --max-target-positions=64 {TRANSLATES}",
    "transformer_lm": f"{LM} --activation-dropout=0 --attention-dropout=0 {PREDICTS}",
    "nonautoregressive_transformer": f"{BOTH} --noise=full_mask {FILLS}",
    "nacrf_transformer": f"{BOTH} --noise=full_mask --crf-beam-approx=5 {FILLS}",
    "iterative_nonautoregressive_transformer": f"{BOTH} --noise=full_mask {FILLS}",
    "cmlm_transformer": f"{BOTH} --noise=random_mask {FILLS}",
    "levenshtein_transformer": f"{BOTH} --noise=random_delete {FILLS}",
    "insertion_transformer": f"{BOTH} --noise=random_delete {FILLS}",
}
# By what their name asks for.
SPECIAL = {"adaptive": ("lstm", "lstm_lm", "fconv_lm", "transformer"), "light": ("lightconv",)}
MORE = {
    "adaptive": "--criterion=adaptive_loss --adaptive-softmax-cutoff=6,9 --ddp-backend=legacy_ddp",
    "light": "--encoder-conv-type=lightweight --decoder-conv-type=lightweight",
}
# Many, and 13 layers of their own widths each.
LARGE = "transformer_lm_gpt3_"
TRAINING = "--optimizer=adam --lr=0.01 --clip-norm=1 --cpu --num-workers=0 --max-epoch=2 --batch-size=8 --seed=3"
BEAM = ["--beam=3", "--nbest=2", "--max-len-b=10"]
USE = "--batch-size=4 --cpu --required-batch-size-multiple=1"


def cases(models: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Architecture and options of each run of these models, by its name."""
    found = {}
    for model in models:
        for arch in ARCH_MODEL_INV_REGISTRY[model]:
            if not arch.startswith(LARGE) or arch == f"{LARGE}small":
                found[arch] = (arch, MODELS[model])
    for name, special in SPECIAL.items():
        for model in [model for model in special if model in models]:
            words = MODELS[model].split(" --criterion")[0] if name == "adaptive" else MODELS[model]
            found[f"{model}, {name}"] = (model, f"{words} {MORE[name]}")
    return found


def parsed(program: str, parser: Any, words: list[str]) -> Any:
    """What fairseq makes of a command line."""
    sys.argv = [program]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser(), words))


def trained(arch: str, words: list[str], data: Path, save: Path) -> dict[str, Any]:
    """The losses of each update and validation."""
    for function in (checkpoint_utils.save_checkpoint, fairseq_cli.train.should_stop_early):
        vars(function).clear()  # where fairseq keeps what it counts
    losses: list[float] = []
    valid: list[float] = []
    step, scores = Trainer.train_step, fairseq_cli.train.get_valid_stats

    def train_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        log = step(self, *args, **kwargs)
        losses.append(float(log["loss"]))
        return log

    def get_valid_stats(*args: Any) -> Any:
        found = scores(*args)
        valid.append(float(found["loss"]))
        return found

    Trainer.train_step, fairseq_cli.train.get_valid_stats = train_step, get_valid_stats
    try:
        given = [str(data), f"--arch={arch}", *words, *TRAINING.split(), f"--save-dir={save}"]
        cfg = parsed("fairseq-train", options.get_training_parser, given)
        distributed_utils.call_main(cfg, fairseq_cli.train.main)
    finally:
        Trainer.train_step, fairseq_cli.train.get_valid_stats = step, scores
    return {"losses": losses, "valid": valid}


def used(words: list[str], data: Path, save: Path) -> Any:
    """The perplexity of the average, or translations and their scores."""
    path = f"--path={save / 'average.pt'}"
    if "--task=language_modeling" in words:
        # More tokens than a model has positions are left out, all of them.
        given = [
            str(data),
            path,
            *USE.split(),
            "--gen-subset=valid",
            "--tokens-per-sample=12",
            "--sample-break-mode=eos",
        ]
        return float(eval_lm.main(parsed("fairseq-eval-lm", options.get_eval_lm_parser, given))["loss"])
    task = next(word for word in words if word.startswith("--task="))
    search = ["--iter-decode-max-iter=3", "--beam=1"] if task.endswith("_lev") else BEAM
    given = [str(data), task, path, *USE.split(), *search, f"--results-path={save}"]
    generate.main(parsed("fairseq-generate", options.get_generation_parser, given))
    lines = (save / "generate-test.txt").read_text(encoding="utf-8").splitlines()
    found = [line.split("\t") for line in lines if line.startswith("H-")]
    return sorted([number, text, float(score)] for number, score, text in found)


def average(side: str, paths: list[Path]) -> dict[str, Any]:
    """The last checkpoint with the mean of the models."""
    if side == "plugin":
        from deepnmt.checkpoints.averaging import average_checkpoints

        return dict(average_checkpoints(paths))
    states = [torch.load(path) for path in paths]
    means = {
        name: torch.stack([state["model"][name].double() for state in states]).mean(0).to(tensor.dtype)
        for name, tensor in states[-1]["model"].items()
    }
    return {**states[-1], "model": means}


def main(side: str, folder: Path, models: Sequence[str]) -> None:
    """Write what comes of each architecture of some models."""
    torch.set_num_threads(1)
    if side == "plugin":
        import deepnmt

        deepnmt.register()
    else:
        # What fairseq needs to read its own checkpoints and texts with today's torch and numpy.
        load = torch.load
        torch.load = lambda *args, **kwargs: load(*args, **{**kwargs, "weights_only": False})
        np.compat = SimpleNamespace(long=np.int64)  # type: ignore[attr-defined]
    results: dict[str, Any] = {}
    for name, (arch, text) in cases(models).items():
        words, save = text.split(), folder / f"{side}-checkpoints"
        data = folder / ("words" if "--task=language_modeling" in words else "text")
        shutil.rmtree(save, ignore_errors=True)
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                results[name] = trained(arch, words, data, save)
                torch.save(average(side, [save / "checkpoint1.pt", save / "checkpoint2.pt"]), save / "average.pt")
                results[name]["used"] = used(words, data, save)
        except (Exception, SystemExit) as error:
            results[name] = {"error": f"{type(error).__name__}: {str(error)[:200]}"}
    (folder / f"{side}.json").write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
