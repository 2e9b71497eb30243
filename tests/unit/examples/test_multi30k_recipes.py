"""Every recipe of Multi30k trains: two updates on a small corpus, in this process."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq_cli import train
from support.models import ROOT
from support.restarts import forget, train_until
from support.slow import slow_but
from support.trainings import binarised_text

import deepnmt
from deepnmt import recipe
from deepnmt.data.recut_text import RecutText
from deepnmt.model.stack import STACKS
from deepnmt.recipe.checking import check_recipe

FOLDER = ROOT / "configs" / "multi30k"
RECIPES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem not in ("base", "tiny_base"))
# Layers of encoder and decoder, and width, as the recipes' headers say; others have the protocol's.
SIZES = {"dlcl_12": (12, 4, 128), "control_dlcl_12": (12, 4, 128), "control_dlcl_24": (24, 4, 128)}
USUAL = ("control_dlcl_12", "r_drop_recut", "student")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    deepnmt.register()
    text = binarised_text(tmp_path_factory.mktemp("corpus"), pieces=True)
    # For BPE-dropout: a merge for each word of the corpus, whose pieces are in the dictionary.
    merges = [f"{letter} {digit}</w>\n" for letter in "ab" for digit in range(8)]
    (text / "codes").write_text("".join(["#version: 0.2\n", *merges]))
    return text


@pytest.fixture(scope="module")
def teacher(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of an update, for recipes that need one."""
    save = tmp_path_factory.mktemp("teacher")
    options = ["--task=translation", "--label-smoothing=0.1", "--max-tokens=200", "--max-update=1"]
    options += ["--criterion=label_smoothed_cross_entropy_fused", "--disable-validation", "--no-epoch-checkpoints"]
    with pytest.MonkeyPatch.context() as monkeypatch:
        train_until(monkeypatch, [str(data), *options], save)
    return save / "checkpoint_last.pt"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget()
    yield
    forget()


@pytest.mark.parametrize("name", slow_but(USUAL, RECIPES))
def test_a_recipe_trains(
    name: str, data: Path, teacher: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    # An update of two batches, and a cool-down of the whole.
    more = ["--max-update=2", "--max-tokens=200", f"--save-dir={tmp_path}", "--log-format=none", "--cpu"]
    more += ["--cooldown-updates=2"] if name == "short" or name.startswith("student") else []
    more += [f"--teacher={teacher}"] if name.startswith("student") else []
    read = recipe.read_recipe(FOLDER / f"{name}.yaml")
    lengths: list[int] = []
    stock = RecutText.cut

    def cut(self: RecutText, seeds: tuple[int, ...]) -> None:
        before = int(self.lengths.sum())
        stock(self, seeds)
        lengths.append(int(self.lengths.sum()) - before)

    monkeypatch.setattr(RecutText, "cut", cut)
    monkeypatch.setattr(sys, "argv", ["fairseq-train"])
    check_recipe(FOLDER / f"{name}.yaml", read, [])
    args = options.parse_args_and_arch(
        options.get_training_parser(), [str(data), *recipe.to_arguments(read), *more, "--disable-validation"]
    )
    train.main(convert_namespace_to_omegaconf(args))
    assert (max(lengths, default=0) > 0) == ("bpe-dropout" in read)
    state = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert state["optimizer_history"][-1]["num_updates"] == 2
    names = state["model"]
    layers = [len({key.split(".")[2] for key in names if key.startswith(f"{stack}.layers.")}) for stack in STACKS]
    assert (*layers, names["encoder.embed_tokens.weight"].size(1)) == SIZES.get(name, (4, 4, 128))
    assert all(weight.isfinite().all() for weight in state["model"].values() if weight.is_floating_point())
    shutil.rmtree(tmp_path)


def test_the_system_of_an_hour_has_the_epochs_that_its_help_names() -> None:
    """Each epoch that is averaged is kept, and the last one validated."""
    said = (ROOT / "examples" / "multi30k" / "best.sh").read_text("utf-8").partition("  --short ")[2]
    words = " ".join(said.partition("  --jobs N ")[0].split())
    for name, text in (
        ("control_56", "56 epochs of the control"),
        ("short_recut", "20 of R-Drop with the source segmented anew"),
        ("short_settled", "10 of R-Drop on the text as it is"),
    ):
        read = recipe.read_recipe(FOLDER / f"{name}.yaml")
        assert (read["max-epoch"].value, read["patience"].value) == (text.partition(" ")[0], "-1")
        assert text in words
        assert int(read["max-epoch"].value) % int(read["validate-interval"].value) == 0
        assert "save-interval" not in read
        assert int(read["keep-last-epochs"].value) == 10
