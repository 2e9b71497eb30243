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


def test_a_recipe_by_run_is_trained_once(root: Path) -> None:
    """One that was trained would not be trained again, and its score would pass for the other one's."""
    place = "out/checkpoints/dlcl_12 was begun"
    (call,) = trainings(stand_ins.run(root, "run.sh", "dlcl_12")[0])
    assert call == "train.sh configs/multi30k/dlcl_12.yaml out/data out/checkpoints/dlcl_12"
    for more in ([], ["--seed", "1"], ["--max-update", "99999", "--patience=5"], ["--lr=0.005", "--log-interval", "7"]):
        assert trainings(stand_ins.run(root, "run.sh", "dlcl_12", *more)[0]) == [" ".join([call, *more])]
    assert refused(root, "run.sh", "dlcl_12", "--seed", "2") == f"{place} with --seed 1, not 2"
    assert refused(root, "run.sh", "dlcl_12", "--lr", "0.003") == f"{place} with --lr 0.005, not 0.003"
    assert refused(root, "run.sh", "dlcl_12", "--no-save") == f"{place} without --no-save"
    # Another recipe of the name.
    mine = root / "mine" / "dlcl_12.yaml"
    mine.parent.mkdir()
    mine.write_text("extends: ../configs/multi30k/dlcl_12.yaml\ndropout: 0.7\n", encoding="utf-8")
    assert refused(root, "run.sh", str(mine)).startswith(f"{place} with --dropout 0.")
    # Whoever wants it can have it.
    (root / "out" / "checkpoints" / "dlcl_12" / "checkpoint_last.pt").unlink()
    assert len(trainings(stand_ins.run(root, "run.sh", str(mine))[0])) == 1
    assert refused(root, "run.sh", "dlcl_12").startswith(f"{place} with --dropout 0.7, not 0.")


def test_rows_and_their_teachers_are_of_one_recipe(root: Path) -> None:
    # What is in the folders of data.
    work = 'mkdir -p "$to"; echo "{\\"inputs\\": \\"$CONTENT\\"}" >"$to/preprocess.json"\n'
    for name, to in (("synthesise.sh", "$5"), ("mix.sh", "$1"), ("binarise.sh", "${!#}")):
        (root / "scripts" / name).write_text(f"{stand_ins.NOTE}to={to}\n{work}", encoding="utf-8")
    command = ["synthetic.sh", "back"]
    here = "out/synthetic/checkpoints"
    environment = {"CONTENT": "one"}
    (root / "examples" / "multi30k" / "rows.py").write_text("print('table')", encoding="utf-8")
    calls, _ = stand_ins.run(root, *command, **environment)
    assert [call.split()[3] for call in trainings(calls)] == [f"{here}/back", f"{here}/seed-1/back"]
    timed = root / "out" / "synthetic" / "seconds.tsv"
    assert len(timed.read_text().splitlines()) == 1
    # Once more: the teacher may have been trained further, which synthesise.sh sees.
    calls, _ = stand_ins.run(root, *command, "--max-update", "8000", **environment)
    assert [call.split()[3] for call in trainings(calls)] == [f"{here}/back", f"{here}/seed-1/back"]
    assert [call.split()[0] for call in calls if call.startswith(("synthesise", "mix"))] == ["synthesise.sh", "mix.sh"]
    assert len(timed.read_text().splitlines()) == 1
    other = str(root / "configs" / "multi30k" / "dlcl_12.yaml")
    assert refused(root, *command, RECIPE=other, **environment).startswith(f"{here}/back was begun with --arch ")
    # Other pairs under the same name.
    bitext = f"{here}/back was begun with another DATA"
    assert refused(root, *command, **{**environment, "CONTENT": "two"}) == bitext


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


@pytest.mark.parametrize("option", ["--disable-validation", "--no-save"])
def test_a_training_without_checkpoints_cannot_be_scored(option: str, root: Path) -> None:
    train = root / "scripts" / "train.sh"
    left = {"--disable-validation": "checkpoint1,checkpoint_last", "--no-save": ""}[option]
    work = f'mkdir -p "$3"; for name in {{{left},}}; do [[ -z $name ]] || touch "$3/$name.pt"; done\n'
    train.write_text(f"{stand_ins.NOTE}{work}", encoding="utf-8")
    _, line = stand_ins.refused(root, "run.sh", "dlcl_12", option)
    name = {"--disable-validation": "checkpoint_best.pt", "--no-save": "average3.pt"}[option]
    advice = "train without --no-save and --disable-validation"
    assert line == f"out/checkpoints/dlcl_12/{name}: must be a checkpoint, but is not there; {advice}"


def test_the_command_says_what_is_wrong_in_a_line(tmp_path: Path) -> None:
    command = [str(warm.program("python3")), "-m", "deepnmt.runs.begun"]
    for words, fault in (
        ([tmp_path / "a.yaml", "data", tmp_path], "a.yaml: cannot be read: No such file or directory"),
        ([stand_ins.ROOT / "configs" / "demo.yaml", "data", "/dev/null/x", "--lr", "1"], "Not a directory"),
    ):
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert fault in done.stderr
