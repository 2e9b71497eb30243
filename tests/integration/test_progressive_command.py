"""train_progressive.sh from text to the last stage's BLEU, and what it refuses."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from support import warm
from support.curves import curve
from support.processes import SECONDS, started, wait_until
from support.progressive_runs import ROOT, SCRIPT, environment, make_data, make_recipe, run

from deepnmt.checkpoints.file import read

ONE, TWO = "encoder-layers: 2, max-update: 5", "encoder-layers: 4, max-update: 8, average: 2"
LAST = "checkpoint_last.pt"
# The first test waits for two stages, which take two minutes of a core to itself.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def save(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two stages, interrupted in the first, and then gone on with."""
    folder = tmp_path_factory.mktemp("progressive")
    recipe, target = make_recipe(folder / "recipe.yaml", ONE, TWO), folder / "save"
    with started(
        [SCRIPT, recipe, data, target],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**environment(), **warm.environment()},
    ) as process:
        wait_until((target / "stage-1-2" / "checkpoint_last.pt").exists, process)
        os.killpg(process.pid, signal.SIGINT)
        errors = process.communicate(timeout=SECONDS)[1]
    assert process.returncode == 130
    assert "interrupted; run the same command again to resume with the first stage that is not done\n" in errors
    assert "Traceback" not in errors
    done = run(SCRIPT, recipe, data, target)
    assert f"{target} is ready" in done.stdout
    return target


def error_line(*command: object) -> str:
    lines = [line for line in run(*command, status=2).stderr.splitlines() if "error:" in line]
    assert len(lines) == 1
    return lines[0]


def test_each_stage_keeps_its_checkpoint_log_and_scores(save: Path) -> None:
    for name, depth, updates in (("stage-1-2", 2, 5), ("stage-2-4", 4, 8)):
        state = read(save / name / LAST)
        assert state["cfg"]["model"]["encoder_layers"] == depth
        assert state["cfg"]["model"]["encoder_groups"] == "2"
        assert state["optimizer_history"][-1]["num_updates"] == updates
        assert f"num_updates {updates}" in (save / name / "train.log").read_text("utf-8")
        assert len((save / name / "valid" / "hyp.en").read_text("utf-8").splitlines()) == 12
    log = (save / "stage-2-4" / "train.log").read_text("utf-8")
    assert "encoder layer 3 <- layer 1" in log
    assert "learning rate: back to its peak at update 5" in log
    left = [path.name for path in save.rglob("*") if ".tmp" in path.name or ".old" in path.name]
    assert not left


def test_table_of_the_stages(save: Path) -> None:
    with (save / "stages.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [(row["stage"], row["encoder_layers"], row["updates"]) for row in rows] == [("1", "2", "5"), ("2", "4", "8")]
    assert [row["checkpoint"] for row in rows] == ["checkpoint_best.pt", "average.pt"]
    for row, name in zip(rows, ("stage-1-2", "stage-2-4")):
        noted = json.loads((save / name / "stage.json").read_text("utf-8"))
        assert {key: str(value) for key, value in noted.items()} == row
        scores = json.loads((save / name / "valid" / "scores.json").read_text("utf-8"))
        assert float(row["BLEU"]) == scores["BLEU"]["score"]
        assert float(row["tokenised BLEU"]) == scores["tokenised BLEU"]["score"]
        assert float(row["valid_loss"]) == read(save / name / LAST)["extra_state"]["best"]
    assert float(rows[0]["seconds"]) <= float(rows[1]["seconds"])


def test_one_curve_with_the_rate_back_at_its_peak(save: Path) -> None:
    rates = curve(save / "tensorboard" / "train_inner", "lr")
    assert list(rates) == list(range(1, 9))
    # (16) with w = 2 up to update 5, then (17); what is logged is the rate of the update that follows.
    expected = {update: 0.005 * min(update / 2, (2 / update) ** 0.5) for update in range(1, 6)}
    expected.update({5 + s: 0.005 * (2 / (2 + s)) ** 0.5 for s in (1, 2, 3)})
    assert rates == pytest.approx(expected, rel=1e-3)
    # At the end of stage 2, which is in the second epoch: the data position went on over the growth.
    position = read(save / "stage-2-4" / LAST)["extra_state"]["train_iterator"]
    batches = read(save / "stage-1-2" / LAST)["extra_state"]["train_iterator"]["iterations_in_epoch"]
    assert (position["epoch"], position["iterations_in_epoch"], batches) == (1, 8, 5)


def test_finished_stages_are_left_alone(save: Path, data: Path) -> None:
    paths = [path for path in save.rglob("*") if path.is_file() and path.name != "stages.tsv"]
    before = {path: path.read_bytes() for path in paths}
    done = run(SCRIPT, save.parent / "recipe.yaml", data, save)
    assert "stage 1 of 2 is done" in done.stdout
    assert "stage 2 of 2 is done" in done.stdout
    assert {path: path.read_bytes() for path in paths} == before
    assert "+ " not in done.stderr


@pytest.mark.slow
def test_refuses_what_does_not_go_together(save: Path, data: Path) -> None:
    recipe = save.parent / "recipe.yaml"
    other = make_recipe(save.parent / "other.yaml", ONE, "encoder-layers: 4, max-update: 9, average: 2")
    path, warmed = save / "stage-2-4" / "recipe.yaml", {**environment(), **warm.environment()}
    begun = f"{path.parent} was begun with max-update '8', not '9'; remove it or choose another SAVE"
    with (save / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # It waits for the lock for ten seconds, and leaves what the other one trains by as it is.
        before = path.read_bytes()
        with started([SCRIPT, other, data, save], stderr=subprocess.PIPE, env=warmed) as waiting:
            message = waiting.communicate(timeout=SECONDS)[1]
        assert path.read_bytes() == before
    assert error_line(SCRIPT, other, data, save) == f"train_progressive.sh: error: {begun}"
    assert (
        "was begun without options --seed 3; remove it" in run(SCRIPT, recipe, data, save, "--seed", 3, status=2).stderr
    )
    assert waiting.returncode == 2
    assert f"SAVE must not be in use, but a command of an earlier run is still running in '{save}'" in message


def test_faults_leave_nothing_behind(data: Path, tmp_path: Path) -> None:
    recipe, save = make_recipe(tmp_path / "recipe.yaml", ONE, "encoder-layers: 7, max-update: 9"), tmp_path / "save"
    assert "stage 2: --encoder-layers must be at most twice the present depth" in error_line(SCRIPT, recipe, data, save)
    assert "a recipe with stages must be run by" in error_line(ROOT / "scripts" / "train.sh", recipe, data, save)
    assert "there is no 'none.yaml'" in error_line(SCRIPT, "none.yaml", data, save)
    assert "DATA must be a folder made by deepnmt preprocess" in error_line(SCRIPT, recipe, tmp_path / "none", save)
    assert "RECIPE, DATA and SAVE must be given, before any option of fairseq-train" in error_line(SCRIPT)
    colon = tmp_path / "save:1"
    fault = f"SAVE must not contain a comma or a colon, but is '{colon}'"
    assert error_line(SCRIPT, recipe, data, colon).endswith(fault)
    assert not save.exists()
    assert not colon.exists()


def test_help() -> None:
    assert run(SCRIPT, "--help").stdout.startswith("usage: train_progressive.sh RECIPE DATA SAVE")
