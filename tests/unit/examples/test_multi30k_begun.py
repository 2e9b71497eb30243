"""A training of the examples with Multi30k is not taken for one of another recipe, data, option, or start."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import best_flow, stand_ins, warm
from support.data_folders import data_folder

from deepnmt.errors import UserError
from deepnmt.jobs import job
from deepnmt.runs import begun

END = "; remove it or choose another OUT"
RECIPE = "task: translation\nlr: 0.5\nfp16: false\nshare-all-embeddings: true\nmax-update: 10\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A copy of the example, beside scripts that do nothing."""
    return best_flow.copy(tmp_path / "root")


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path


def trainings(calls: Sequence[str]) -> list[str]:
    return [call for call in calls if call.startswith("train.sh")]


def refused(root: Path, script: str, *arguments: str, **environment: str) -> str:
    """Return why a training is refused, which is not begun then."""
    calls, line = stand_ins.refused(root, script, *arguments, **environment)
    assert not trainings(calls)
    assert line.endswith(END)
    return line.removesuffix(END)


def test_a_recipe_is_trained_once(root: Path) -> None:
    """One that was trained would not be trained again, and its score would pass for the other one's."""
    command = ["best.sh", "--stage", "control"]
    place = "out/best/checkpoints/control-1/trained was begun"
    (call,) = trainings(best_flow.run(root, *command))
    assert call == "train.sh configs/multi30k/control.yaml out/data BEST/checkpoints/control-1/trained --seed 1"
    assert not trainings(best_flow.run(root, *command))
    for more in (["--max-update", "99999", "--patience=5"], ["--lr=0.005", "--log-interval", "7"]):
        assert trainings(best_flow.run(root, *command, *more)) == [" ".join([call, *more])]
    assert refused(root, *command, "--lr", "0.003") == f"{place} with --lr 0.005, not 0.003"
    assert refused(root, *command, "--no-save") == f"{place} without --no-save"
    # Another recipe of the name.
    recipe = root / "configs" / "multi30k" / "control.yaml"
    text = recipe.read_text("utf-8")
    recipe.write_text(f"{text}dropout: 0.7\n", encoding="utf-8")
    assert refused(root, *command) == f"{place} with --dropout 0.3, not 0.7"
    # Whoever wants it can have it.
    (root / "out" / "best" / "checkpoints" / "control-1" / "trained" / "checkpoint_last.pt").unlink()
    assert len(trainings(best_flow.run(root, *command))) == 1
    recipe.write_text(text, encoding="utf-8")
    assert refused(root, *command) == f"{place} with --dropout 0.7, not 0.3"


@pytest.mark.slow
def test_a_changed_recipe_is_refused_and_a_larger_end_trained(root: Path) -> None:
    first, second = (f"out/best/checkpoints/{name}-1/trained was begun" for name in ("control", "r_drop"))
    command = ["best.sh", "--member", "r_drop:1", "--stage", "members"]

    def trained() -> list[str]:
        return [call.split()[1] for call in trainings(best_flow.run(root, *command))]

    control, r_drop = (f"configs/multi30k/{name}.yaml" for name in ("control", "r_drop"))
    assert trained() == [control, r_drop]
    recipe = root / r_drop
    recipe.write_text("# Another comment.\n" + recipe.read_text("utf-8"), encoding="utf-8")
    assert trained() == []
    text = recipe.read_text("utf-8")
    recipe.write_text(text + "clip-norm: 0.2\n", encoding="utf-8")
    assert refused(root, *command) == f"{second} without --clip-norm 0.2"
    assert refused(root, *command, "--lr", "9") == f"{first} with --lr 0.005, not 9"
    # What both extend.
    base = root / "configs" / "multi30k" / "transformer_tiny.yaml"
    base.write_text(base.read_text("utf-8") + "weight-decay: 0.0001\n", encoding="utf-8")
    assert refused(root, *command) == f"{first} without --weight-decay 0.0001"
    base.write_text(base.read_text("utf-8").replace("weight-decay: 0.0001", "max-epoch: 9999"), encoding="utf-8")
    recipe.write_text(text + "max-update: 99999\n", encoding="utf-8")
    assert trained() == [control, r_drop]


@pytest.mark.slow
def test_a_start_that_was_trained_again_is_another(root: Path) -> None:
    command = ["best.sh", "--member", "r_drop:1", "--stage", "members"]
    best_flow.run(root, *command)
    folder = root / "out" / "best" / "checkpoints"
    # Written anew, with the same in it.
    start = folder / "control-1" / "trained" / "checkpoint_last.pt"
    os.utime(start, (1, 1))
    assert not trainings(best_flow.run(root, *command))
    start.write_text("another")
    place = "out/best/checkpoints"
    assert refused(root, *command) == f"{place}/r_drop-1/trained was begun with another --finetune-from-model"


def test_what_an_earlier_version_has_trained_is_done(root: Path) -> None:
    command = ["best.sh", "--member", "control:1", "--stage", "members"]
    best_flow.run(root, *command)
    save = root / "out" / "best" / "checkpoints" / "control-1" / "trained"
    note = save / "begun.json"
    before = note.read_bytes()
    note.unlink()
    assert not trainings(best_flow.run(root, *command))
    assert note.read_bytes() == before
    assert refused(root, *command, "--clip-norm", "3")


def test_what_a_training_is_begun_with(recipe: Path, tmp_path: Path) -> None:
    save, data = tmp_path / "save", data_folder(tmp_path / "data")
    start = tmp_path / "start.pt"
    start.write_text("start")
    words = [
        "--seed=7",
        "--betas",
        "(0.9,",
        "0.98)",
        "--min",
        "-1",
        "--finetune-from-model",
        str(start),
    ]
    begun.begin(recipe, str(data), save, [*words, "--lr", "1", "--lr", "2", "--max-epoch", "3", "-s", "de"])
    assert json.loads((save / "begun.json").read_text())["said"] == {
        "--betas": "(0.9, 0.98)", "--finetune-from-model": str(start), "--lr": "2", "--min": "-1",
        "--seed": "7", "--share-all-embeddings": "", "--task": "translation", "-s": "de", "DATA": str(data),
    }  # fmt: skip
    # What has left no checkpoint may be begun anew.
    begun.begin(recipe, str(data), save, [])
    (save / "checkpoint_last.pt").touch()
    begun.begin(recipe, str(data), save, ["--stop-time-hours", "1", "--cooldown-updates", "2"])
    with pytest.raises(UserError, match=rf"^{save} was begun without --teacher{END}$"):
        begun.begin(recipe, str(data), save, ["--teacher", "x.pt"])
    recipe.write_text(RECIPE.replace("share", "# share"), encoding="utf-8")
    with pytest.raises(UserError, match=r"was begun with --share-all-embeddings, not without;"):
        begun.begin(recipe, str(data), save, [])


def test_data_is_the_same_wherever_it_is(recipe: Path, tmp_path: Path) -> None:
    save, data = tmp_path / "save", data_folder(tmp_path / "data")
    (data / "copy1").mkdir()
    begun.begin(recipe, f"{data}:{data}/copy1", save, [])
    (save / "checkpoint_last.pt").touch()
    data = data.rename(tmp_path / "moved")
    begun.begin(recipe, f"{data}:{data}/copy1", save, [])
    with pytest.raises(UserError, match=rf"^{save} was begun with another DATA{END}$"):
        begun.begin(recipe, str(data), save, [])
    record = json.loads((data / "preprocess.json").read_text())
    # A log of another size.
    (data / "preprocess.json").write_text(json.dumps({**record, "files": {"preprocess.log": 1}}, indent=2))
    begun.begin(recipe, f"{data}:{data}/copy1", save, [])
    (data / "preprocess.json").write_text(json.dumps({**record, "inputs": {"train.de": "another"}}))
    with pytest.raises(UserError, match="was begun with another DATA"):
        begun.begin(recipe, f"{data}:{data}/copy1", save, [])


def test_a_running_training_keeps_its_note(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "WAIT", 0)
    save, data = tmp_path / "save", data_folder(tmp_path / "data")
    begun.begin(recipe, str(data), save, [])
    with (save / "train.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=r"^OUT must not be in use, but a command .* is still running in "):
            begun.begin(recipe, str(data), save, ["--lr", "3"])
    begun.begin(recipe, str(data), save, ["--lr", "3"])


def test_the_command_says_what_is_wrong_in_a_line(tmp_path: Path) -> None:
    command = [str(warm.program("python3")), "-m", "deepnmt.runs.begun"]
    for words, fault in (
        ([tmp_path / "a.yaml", "data", tmp_path], "a.yaml: cannot be read: No such file or directory"),
        ([stand_ins.ROOT / "configs" / "demo.yaml", "data", "/dev/null/x", "--lr", "1"], "Not a directory"),
    ):
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert fault in done.stderr
