"""Train the models that are not at hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deepnmt.errors import UserError
from deepnmt.text.settings import TextSettings
from techniques.commands import ROOT, run

# In the place of a checkpoint.
TRAIN = "train"
RECIPES = ROOT / "configs" / "multi30k"


def checkpoint(kind: str, given: str, data: Path, out: Path, options: Sequence[str]) -> Path:
    """Return a checkpoint that is given, or that is trained here: the average of the last epochs.

    Args:
        kind: more, r2l, two-sided, reverse or lm
        given: its path, or "train"
        data: the data folder
        out: folder for what is trained
        options: of fairseq-train
    """
    if given != TRAIN:
        if not Path(given).is_file():
            raise UserError(f"--{kind}: {given}: no such checkpoint (and not '{TRAIN}')")
        return Path(given)
    save, languages = out / "models" / kind, TextSettings.read(data).languages
    if kind == "lm":
        return language_model(data, save, languages[1], options)
    average = save / "average.pt"
    if not average.exists():
        recipe, more = "transformer_tiny", []
        if kind == "more":
            more = ["--seed", "2"]
        elif kind == "reverse":
            more = ["--source-lang", languages[1], "--target-lang", languages[0]]
        else:
            recipe = {"r2l": "right_to_left", "two-sided": "two_sided"}[kind]
        run(ROOT / "scripts" / "train.sh", RECIPES / f"{recipe}.yaml", data, save, *more, *options)
        # A training of less than an epoch has the last state alone.
        epochs = len(list(save.glob("checkpoint[0-9]*.pt"))) or 1
        run(ROOT / "scripts" / "average.sh", save, average, "--last", min(epochs, 10))
    return average


def language_model(data: Path, save: Path, language: str, options: Sequence[str]) -> Path:
    """Return a language model; the dictionary is beside it."""
    done = save / "trained"
    if not done.exists():
        run(ROOT / "scripts" / "train_lm.sh", data, save, "--lang", language, *options)
        done.touch()
    return save / "checkpoint_best.pt"
