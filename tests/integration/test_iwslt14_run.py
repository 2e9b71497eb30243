"""run.sh: a row from data to its record, with trainings and translations that are made up, and once in earnest."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support import warm
from support.data_folders import data_folder
from support.models import ROOT
from support.processes import SECONDS, finish, started, wait_until

EXAMPLE = ROOT / "examples" / "iwslt14"
SENTENCES = [f"this is sentence number {n} of ten" for n in range(10)]
# Notes that it was called, and with what; the checkpoints of seed 9 never come.
TRAIN = """
import os, sys, torch
from pathlib import Path
def option(name):
    return [value for key, value in zip(sys.argv, sys.argv[1:]) if key == name][-1]
save, seed = Path(option("--save-dir")), option("--seed")
with open(os.environ["CALLS"], "a") as calls:
    print("train", seed, "again" if (save / "checkpoint_last.pt").exists() else "anew", file=calls)
if seed == "9":
    sys.exit("deepnmt: error: training stopped at update 7: the model: NaN")
if seed == "8":
    sys.exit("disk full")
if not (save / "checkpoint_last.pt").exists():
    def state(epoch):
        position = {"epoch": epoch + 1, "iterations_in_epoch": 0}
        extra = {"train_iterator": position, "previous_training_time": 60.0 * epoch}
        names = {"num_updates": epoch, "criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
        options = {"model": {"_name": "transformer"}, "task": {"_name": "translation"}}
        model = {"w": torch.ones(2) * epoch}
        return {"cfg": options, "model": model, "extra_state": extra, "optimizer_history": [names]}
    for epoch in range(1, 1 if "--no-epoch-checkpoints" in sys.argv else 8):
        torch.save(state(epoch), save / f"checkpoint{epoch}.pt")
    torch.save(state(5), save / "checkpoint_best.pt")
    torch.save(state(7), save / "checkpoint_last.pt")
"""
# In place of generate.sh's search: CHECKPOINT DATA OUT and options. On validation, beam 4 and length penalty 1.4 are
# best; on the test set, they are worst.
GENERATE = """
import os, sys, time
from pathlib import Path
from deepnmt.text.translated_folder import write_translations
def option(name):
    return [value for key, value in zip(sys.argv, sys.argv[1:]) if key == name][-1]
path, data, out = map(Path, sys.argv[1:4])
subset, beam, penalty = (option(f"--{name}") for name in ("subset", "beam", "lenpen"))
with open(os.environ["CALLS"], "a") as calls:
    print(subset, path.stem, beam, penalty, file=calls)
stop = Path(os.environ["CALLS"] + ".stop")
if stop.exists() and subset == "test":
    stop.unlink()
    while not Path(os.environ["CALLS"] + ".go").exists():
        time.sleep(0.1)
right = 2 + 3 * (beam == "4") + 4 * (penalty == "1.4")
right = right if subset == "valid" else 10 - right
out.mkdir(parents=True, exist_ok=True)
found = [f"this is sentence number {n} of ten" if n < right else "something else" for n in range(10)]
write_translations(out, found, data, subset, 0)
"""
# Of train.sh: RECIPE DATA SAVE and options.
PYTHON = """#!/usr/bin/env bash
if [[ $2 == deepnmt && $3 == generate ]]; then exec stand-in-generate "${{@:4}}"; fi
if [[ "$2 $3" != "deepnmt train" ]]; then exec {} "$@"; fi
mkdir -p "$6"
fairseq-train "$5" --save-dir "$6" "${{@:7}}" 2>&1 | tee -a "$6/train.log"
exit "${{PIPESTATUS[0]}}"
"""


@pytest.fixture
def study(tmp_path: Path) -> dict[str, str]:
    """Environment of a study with data, in which programs of fairseq are made up."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (("fairseq-train", TRAIN), ("stand-in-generate", GENERATE)):
        (tools / name).write_text(f"#!{warm.program('python3')}\n{text}", encoding="utf-8")
    # Recipes are not read: that would take most of the time.
    (tools / "python3").write_text(PYTHON.format(warm.program("python3")), encoding="utf-8")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    data_folder(tmp_path / "out" / "data", lines=SENTENCES)
    made_up = {"OUT": str(tmp_path / "out"), "DEEPNMT_PYTHON_BIN": str(tools), "CALLS": str(tmp_path / "calls")}
    return {**os.environ, **made_up, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def run(environment: dict[str, str], *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    command = [str(EXAMPLE / "run.sh"), *arguments]
    done = finish(command, env=environment)
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    return done


def calls(environment: dict[str, str]) -> list[str]:
    """What was called since the last time."""
    path = Path(environment["CALLS"])
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


GRID = ("--beams", "5,4", "--lenpens", "1,1.4")
VALID = ["valid average5 5 1", "valid average5 5 1.4", "valid average5 4 1.4"]
TEST = ["test checkpoint_best 4 1.4", "test average5 4 1.4"]


def test_row_from_data_to_record(study: dict[str, str]) -> None:
    done = run(study, "3.1/10", "--seeds", "1,9", *GRID, "--max-epoch", "7")
    # Settings are chosen on validation alone, where they are best.
    assert calls(study) == ["train 1 anew", *VALID, *TEST, "train 9 anew"]
    assert "3.1/10, seed 9: the training broke down, which report.sh will show" in done.stdout
    folder = Path(study["OUT"]) / "runs" / "3.1" / "10"
    record = json.loads((folder / "seed1" / "run.json").read_text("utf-8"))
    assert record["options"] == ["--max-epoch", "7"]
    assert (record["beam"], record["lenpen"], record["best_epoch"], record["epochs"]) == (4, 1.4, 5, 7)
    assert record["hours"] == round(7 / 60, 4)
    assert record["valid"]["bleu"] > record["average"]["bleu"] == record["best"]["bleu"]
    failed = json.loads((folder / "seed9" / "run.json").read_text("utf-8"))
    assert failed["failed"] == "training stopped at update 7: the model: NaN"
    # The same command finds all done, but looks whether the training has to go on.
    run(study, "3.1/10", *GRID, "--max-epoch", "7")
    assert calls(study) == ["train 1 again"]
    # Its options are what report.sh says of it.
    done = run(study, "3.1/10", *GRID, "--max-epoch", "7", "--dropout", "0.2", status=2)
    save = folder / "seed1" / "checkpoints"
    assert done.stderr.endswith(f"{save} was begun with --dropout 0.3, not 0.2; remove it or choose another OUT\n")
    assert json.loads((folder / "seed1" / "run.json").read_text("utf-8"))["options"] == ["--max-epoch", "7"]
    # A longer training is averaged, tuned and translated anew.
    last = folder / "seed1" / "checkpoints" / "checkpoint_last.pt"
    best = folder / "seed1" / "checkpoints" / "checkpoint_best.pt"
    shutil.copyfile(last, best)
    os.utime(last)
    run(study, "3.1/10", "--beams", "4", "--lenpens", "1.4")
    assert calls(study) == ["train 1 again", VALID[-1], *TEST]
    assert json.loads((folder / "seed1" / "run.json").read_text("utf-8"))["best_epoch"] == 7
    report = subprocess.run([str(EXAMPLE / "report.sh")], capture_output=True, text=True, check=True, env=study)
    line = next(line for line in report.stdout.splitlines() if line.startswith("| 3.1/10 |"))
    assert "; failed (seed 9) |" in line
    assert (Path(study["OUT"]) / "report.html").is_file()


@pytest.mark.slow
def test_another_archive_is_not_taken_for_that_of_the_data(study: dict[str, str], tmp_path: Path) -> None:
    archive, noted = tmp_path / "an archive.tgz", Path(study["OUT"]) / "archive.sha256"
    archive.write_bytes(b"one")
    noted.write_text(hashlib.sha256(b"one").hexdigest() + "\n")
    run(study, "3.1/1", "--archive", str(archive), "--beams", "5", "--lenpens", "1")
    archive.write_bytes(b"two")
    done = run(study, "3.1/1", "--archive", str(archive), status=2)
    data = Path(study["OUT"]) / "data"
    assert done.stderr.endswith(
        f"run.sh: error: --archive must be the one that {data} was made from, but '{archive}' is another; choose "
        "another OUT\n"
    )
    archive.unlink()
    done = run(study, "3.1/1", "--archive", str(archive), status=2)
    assert done.stderr.endswith(f"run.sh: error: --archive must be a file, but there is no '{archive}'\n")


@pytest.mark.slow
def test_a_training_of_less_than_an_epoch(study: dict[str, str]) -> None:
    run(study, "3.1/1", "--beams", "5", "--lenpens", "1", "--no-epoch-checkpoints")
    assert calls(study) == ["train 1 anew", "valid average5 5 1", "test checkpoint_best 5 1", "test average5 5 1"]


@pytest.mark.slow
def test_fault_that_is_no_result(study: dict[str, str]) -> None:
    done = run(study, "3.1/1", "--seeds", "8", status=2)
    assert "run.sh: error: the training ended with an error: see " in done.stderr
    assert not (Path(study["OUT"]) / "runs" / "3.1" / "1" / "seed8" / "run.json").exists()


@pytest.mark.slow
def test_killed_run_goes_on(study: dict[str, str], tmp_path: Path) -> None:
    stop, go, errors = (Path(study["CALLS"] + end) for end in (".stop", ".go", ".errors"))
    stop.touch()
    command = [str(EXAMPLE / "run.sh"), "peers/t_fixup", "--beams", "5", "--lenpens", "1"]
    try:
        with errors.open("w") as file, started(command, env=study, stdout=file, stderr=file) as first:
            wait_until(lambda: not stop.exists(), first)
            first.kill()
            first.wait()
            with errors.open("w") as again, started(command, env=study, stdout=again, stderr=again) as second:
                # What is left of the first, here a translation, ends before.
                waiting = "run.sh: waiting for another training of peers/t_fixup, seed 1, to end"
                wait_until(lambda: waiting in errors.read_text("utf-8"), second)
                go.touch()
                assert second.wait(timeout=SECONDS) == 0
    finally:
        go.touch()
    # This row averages ten epochs, or all where there are fewer.
    valid, best, average = "valid average10 5 1", "test checkpoint_best 5 1", "test average10 5 1"
    assert calls(study) == ["train 1 anew", valid, best, "train 1 again", best, average]
    assert (tmp_path / "out" / "runs" / "peers" / "t_fixup" / "seed1" / "run.json").is_file()


NO_ROW = "run.sh: error: ROW must be one of those that run.sh --list shows, such as 3.1/10, but is"
FAULTS: dict[str, tuple[list[str], str]] = {
    "no row": ([], "run.sh: error: ROW must be given (see --help)"),
    "row": (["3.1/11"], f"{NO_ROW} '3.1/11'"),
    "base": (["dlcl"], f"{NO_ROW} 'dlcl'"),
    "two": (["3.1/1", "3.1/2"], "run.sh: error: unexpected argument '3.1/2' (see --help)"),
    "seeds": (["3.1/1", "--seeds", "a"], "run.sh: error: --seeds must be whole numbers such as 1,2,3, but is 'a'"),
    "seed": (["3.1/1", "--seed", "2"], "run.sh: error: --seeds must be used in place of --seed"),
    "late seed": (
        ["3.1/1", "--lr", "1", "--seed=2"],
        "run.sh: error: --seeds must be used in place of --seed, before other options",
    ),
    "beams": (["3.1/1", "--beams", "0"], "run.sh: error: --beams must be whole numbers such as 5,4,8, but is '0'"),
    "penalty": (["3.1/1", "--lenpens", "x"], "run.sh: error: --lenpens must be numbers such as 1,0.6,1.4, but is 'x'"),
}


@pytest.mark.parametrize(("arguments", "message"), FAULTS.values(), ids=FAULTS)
def test_faulty_command_lines(arguments: list[str], message: str, tmp_path: Path) -> None:
    environment = {**os.environ, "OUT": str(tmp_path / "out")}
    assert run(environment, *arguments, status=2).stderr == f"{message}\n"
    assert not (tmp_path / "out").exists()


def test_help_and_list() -> None:
    for script in ("run.sh", "report.sh"):
        done = subprocess.run([str(EXAMPLE / script), "--help"], capture_output=True, text=True, check=True)
        assert done.stdout.startswith(f"usage: {script}")
    lines = run(dict(os.environ), "--list").stdout.splitlines()
    assert len(lines) == 54
    assert re.match(r"3\.1/10 +35\.94  DLCL, 6 \+ 6 layers, pre-norm, dropout 0\.3", lines[9])
    faults = {"--samples": ["--samples", "few"], "unknown argument": ["--what"]}
    for message, arguments in faults.items():
        done = subprocess.run([str(EXAMPLE / "report.sh"), *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(f"report.sh: error: {message}")


@pytest.mark.slow
def test_smoke(tmp_path: Path) -> None:
    environment: dict[str, Any] = {**os.environ, "OUT": str(tmp_path), "OMP_NUM_THREADS": "1"}
    run(environment, "3.5/12", "--smoke")
    folder = tmp_path / "smoke" / "runs" / "3.5" / "12" / "seed1"
    record = json.loads((folder / "run.json").read_text("utf-8"))
    assert record["epochs"] == 6
    assert record["versions"]["device"] == "CPU"
    before = (folder / "checkpoints" / "checkpoint_last.pt").stat().st_mtime_ns
    done = run(environment, "3.5/12", "--smoke")
    assert "nothing to train" in done.stdout + done.stderr
    assert "fairseq-generate" not in done.stderr
    assert (folder / "checkpoints" / "checkpoint_last.pt").stat().st_mtime_ns == before
    report = [str(EXAMPLE / "report.sh"), "--smoke", "--baseline", "3.5/12", "--samples", "10"]
    subprocess.run(report, check=True, env=environment)
    lines = (tmp_path / "smoke" / "report.md").read_text("utf-8").splitlines()
    line = next(line for line in lines if line.startswith("| 3.5/12 |"))
    assert "not run" not in line
