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


def place(kind: str, given: str, out: Path) -> Path:
    """Return where a checkpoint is, or where it will be.

    Args:
        kind: more, r2l, two-sided, reverse or lm
        given: its path, or "train"
        out: folder for what is trained

    Raises:
        UserError: there is no such file
    """
    if given == TRAIN:
        return out / "models" / kind / ("checkpoint_best.pt" if kind == "lm" else "average.pt")
    if not Path(given).is_file():
        raise UserError(f"--{kind}: {given}: no such checkpoint (and not '{TRAIN}')")
    return Path(given)


def checkpoint(kind: str, given: str, data: Path, out: Path, options: Sequence[str]) -> Path:
    """Return a checkpoint that is given, or that is trained here: the average of the last epochs.

    Args:
        kind, given, out: as of `place`
        data: the data folder
        options: of fairseq-train
    """
    path = place(kind, given, out)
    if given != TRAIN:
        return path
    save, languages = path.parent, TextSettings.read(data).languages
    if kind == "lm":
        train_language_model(data, save, languages[1], options)
        return path
    if not path.exists():
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
        run(ROOT / "scripts" / "average.sh", save, path, "--last", min(epochs, 10))
    return path


def train_language_model(data: Path, save: Path, language: str, options: Sequence[str]) -> None:
    """Train a language model, unless that is done; the dictionary is beside it."""
    done = save / "trained"
    if not done.exists():
        run(ROOT / "scripts" / "train_lm.sh", data, save, "--lang", language, *options)
        done.touch()
