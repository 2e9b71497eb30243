"""The package's own commands refuse a checkpoint of another dictionary, of other codes and of other text settings."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq_cli import train
from support.checkpoints import load, run_main
from support.data_folders import change_record
from support.flow import corpus, preprocess
from support.known_data import earlier, knows, warned_of
from support.slow import slow_but
from support.translation_models import write_checkpoint

from deepnmt.cli import bleu_per_depth, generate, grow, search_errors, shrink, sweep, synthesise
from deepnmt.errors import UserError
from deepnmt.generation import depths
from deepnmt.runs import finetuning
from deepnmt.text.subword_identity import SubwordIdentity

SIDES = ("de", "en")
TRAINING = ["--task=deep_translation", "--arch=dlcl_transformer", "--optimizer=adam", "--lr=0.01", "--cpu"]
TRAINING += ["--max-tokens=200", "--max-update=1", "--num-workers=0", "--disable-validation", "--no-save"]
TRAINING += [f"--{stack}-{name}" for stack in ("encoder", "decoder") for name in ("embed-dim=16", "ffn-embed-dim=24")]
TRAINING += ["--encoder-attention-heads=4", "--decoder-attention-heads=4", "--decoder-layers=3"]
LOSS = "--criterion=label_smoothed_cross_entropy_fused"
SEARCH = ["--subset=valid"]
COMMANDS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "generate": (generate.main, ["{model}", "{data}", "{out}", *SEARCH]),
    "an ensemble": (generate.main, ["{fits}:{model}", "{data}", "{out}", *SEARCH]),
    "finetune": (finetuning.main, ["{model}", "{data}", "{out}", ""]),
    "search-errors": (search_errors.main, ["{model}", "{data}", "--out={out}", "--beams=1", *SEARCH]),
    "synthesise": (synthesise.main, ["distil", "{model}", "{data}", "{out}"]),
    "bleu-per-depth": (bleu_per_depth.main, ["{model}", "{data}", "{out}", "--encoder-every=3"]),
    "sweep": (sweep.main, ["{save}", "{data}", "{out}", "--last=1", "--beam=1"]),
    "grown": (train.cli_main, ["{data}", *TRAINING, LOSS, "--encoder-layers=6", "--restore-file={grown}"]),
    "shrunk": (train.cli_main, ["{data}", *TRAINING, LOSS, "--encoder-layers=1", "--restore-file={shrunk}"]),
}
OTHERS = {
    "order": "it was trained with another source dictionary",
    "size": "it was trained on other data|it was trained with another source dictionary",
    "codes": "it was trained with other codes",
    "settings": "its text was prepared without normalise, and that of the folder with normalise",
}


def swap(path: Path, first: int) -> None:
    """Exchange a line of a file and its next, so that it stays as long as it is."""
    lines = path.read_text("utf-8").splitlines(keepends=True)
    lines[first : first + 2] = lines[first : first + 2][::-1]
    path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A data folder, others that differ from it in one respect each, and models of it and of what others make of it."""
    folder = tmp_path_factory.mktemp("other")
    own = folder / "own"
    assert preprocess(corpus(folder / "text"), own).returncode == 0
    found = {"own": own, **{name: Path(shutil.copytree(own, folder / name)) for name in OTHERS}}
    for language in SIDES:
        swap(found["order"] / f"dict.{language}.txt", 0)
        swap(found["size"] / f"dict.{language}.txt", 0)
        with (found["size"] / f"dict.{language}.txt").open("a", encoding="utf-8") as file:
            file.write("more 1\n")
    swap(found["codes"] / "codes", 1)
    change_record(found["settings"], normalise="punctuation")
    change_record(found["size"], types={}, files={})
    # Where fairseq-train leaves it.
    (folder / "save").mkdir()
    identity = SubwordIdentity.of_folder(own, SIDES)
    found["model"] = knows(write_checkpoint(folder / "save" / "checkpoint1.pt", own), identity)
    found["save"] = folder / "save"
    state = load(found["model"])
    state["optimizer_history"] = [{"num_updates": 1, "criterion_name": "X", "lr_scheduler_state": {}}]
    torch.save(state, found["model"])
    found |= {"grown": folder / "grown.pt", "shrunk": folder / "shrunk.pt"}
    run_main(grow.main, "grow", found["model"], found["grown"], "--encoder-layers=6")
    run_main(shrink.main, "shrink", found["model"], found["shrunk"], "--encoder-keep=1")
    return found


# A training refuses another size by the tables of the model, which tests of fairseq's own loading run.
PAIRS = [(name, other) for name in COMMANDS for other in OTHERS if other != "size" or name not in ("grown", "shrunk")]


# Each kind of fault by one command of each sort, and each command with one of them.
@pytest.mark.parametrize(
    ("name", "other"),
    slow_but([pair for pair in PAIRS if pair[0] in ("generate", "finetune", "grown") or pair[1] == "codes"], PAIRS),
)
def test_refused(places: dict[str, Path], name: str, other: str, tmp_path: Path) -> None:
    command, words = COMMANDS[name]
    data, given = places[other], {**places, "data": places[other], "out": tmp_path / "out"}
    if "{fits}" in " ".join(words):
        given["fits"] = knows(write_checkpoint(tmp_path / "fits.pt", data), SubwordIdentity.of_folder(data, SIDES))
    with pytest.raises(UserError, match=OTHERS[other]) as caught:
        run_main(command, name, *(word.format(**given) for word in words))
    assert len(str(caught.value).splitlines()) == 1
    assert not list(tmp_path.glob("out/**/hyp.*"))


@pytest.mark.parametrize("name", slow_but(["generate"], ["generate", "synthesise", "bleu-per-depth"]))
def test_an_earlier_checkpoint_is_used_and_one_line_says_so(
    places: dict[str, Path],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = earlier(places["model"], tmp_path / "earlier.pt")
    given = {**places, "model": model, "data": places["own"], "out": tmp_path / "out"}
    command, words = COMMANDS[name]
    steps = name == "bleu-per-depth"
    # Its steps are processes of their own.
    monkeypatch.setattr(depths, "run_step", lambda *_: sys.exit("a step"))

    def run() -> None:
        with pytest.raises(SystemExit, match="a step") if steps else contextlib.nullcontext():
            run_main(command, name, *(word.format(**given) for word in words))

    assert warned_of(run, caplog) == [str(model)]
    assert steps or list((tmp_path / "out").rglob("*.json"))
