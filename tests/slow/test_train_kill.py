"""A training that is killed again and again has the loss curve and ends with the parameters of one that never was."""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.curves import curve
from support.distributed_runs import ROOT, write_corpus
from support.kills import SECONDS, Run, command_of, end, environment_of

from deepnmt.checkpoints.file import read

INTERVAL, UPDATES = 3, 60
# Seven batches an epoch, two an update: the last update of every epoch has but one of them.
RECIPE = f"""
task: translation
arch: dlcl_transformer_tiny
encoder-layers: 3
decoder-layers: 2
encoder-embed-dim: 64
decoder-embed-dim: 64
encoder-ffn-embed-dim: 128
decoder-ffn-embed-dim: 128
share-decoder-input-output-embed: true
encoder-skip: 0.4
decoder-skip: 0.4
dropout: 0.2
attention-dropout: 0.1
optimizer: adam
lr: 0.005
lr-scheduler: inverse_sqrt_reset
warmup-updates: 10
criterion: label_smoothed_cross_entropy
label-smoothing: 0.1
batch-size: 8
batches-per-update: 2
max-update: {UPDATES}
save-interval-updates: {INTERVAL}
keep-interval-updates: 2
keep-last-epochs: 2
log-format: simple
log-interval: 1
"""
PHASES = {
    "starting": b"",
    "training": b"Start iterating over samples",
    "saving": b"Preparing to save checkpoint",
    "training on": b"Saved checkpoint",
}
# What each start is to be killed in. "writing": while a file is half on the disk.
TARGETS = ("writing", "training", "saving", "writing", "training on", "saving", "starting", "training on", "writing")
# What must be the same in two logs, and is: all but times.
LOGGED = re.compile(r"\| train_inner \| epoch \d+: +\d+ / \d+ ((?:\w+=[^,|]+, )+)wall=\d+$", re.MULTILINE)
VALID = re.compile(r"\| valid \| (epoch \d+ \| .*num_updates \d+)(?: \| best_loss ([\d.]+))?$", re.MULTILINE)
TIMES = {"wps", "ups", "train_wall"}


def start(folder: Path, processes: int, save: Path, log: Path, *options: str) -> Run:
    command = [ROOT / "scripts" / "train.sh", folder / "recipe.yaml", folder / "data", save]
    command += [f"--tensorboard-logdir={save / 'tensorboard'}", *options]
    environment = {**os.environ, "PROCESSES": str(processes), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return Run(command, log, PHASES, environment)


def parts(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of nested dictionaries and lists, by their path."""
    if isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from parts(item, f"{name}/{key}")
    else:
        yield name, value


def state_of(path: Path) -> dict[str, Any]:
    """All that a training goes on from, but for times and paths."""
    state = read(path)
    # One entry a start, of which a training goes on from the last.
    state["optimizer_history"] = state["optimizer_history"][-1:]
    # fairseq saves before it tells the schedule the loss of an epoch, and forgets to tell it after a restart there; the
    # schedules that go by the number of updates do not look at it.
    del state["optimizer_history"][-1]["lr_scheduler_state"]["best"]
    del state["args"], state["cfg"], state["extra_state"]["metrics"], state["extra_state"]["previous_training_time"]
    del state["extra_state"]["processor_seconds"]
    return dict(parts(state))


def updates_of(state: dict[str, Any]) -> int:
    return max(value for name, value in state.items() if name.endswith("/num_updates"))


def assert_same_state(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Parameters, optimizer, schedule and data position are equal bit by bit."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        same = value.equal(other[name]) if isinstance(value, torch.Tensor) else value == other[name]
        assert same, name


def checkpoints(save: Path) -> list[Path]:
    return sorted(save.glob("*.pt"))


def assert_whole(save: Path, whole: dict[int, dict[str, Any]]) -> int:
    """Every checkpoint is one of the undisturbed training; gives how many there are."""
    for path in checkpoints(save):
        state = state_of(path)
        assert_same_state(state, whole[updates_of(state)])
    return len(checkpoints(save))


def logged(save: Path) -> tuple[dict[int, set[tuple[str, ...]]], dict[str, set[str]]]:
    """All lines of the log for each update, without times; and for each validation, its best loss apart."""
    text = (save / "train.log").read_text("utf-8", errors="replace")
    training: dict[int, set[tuple[str, ...]]] = {}
    for match in LOGGED.finditer(text):
        fields = dict(field.split("=") for field in match[1].removesuffix(", ").split(", "))
        line = tuple(f"{name}={value.strip()}" for name, value in fields.items() if name not in TIMES)
        training.setdefault(int(fields["num_updates"]), set()).add(line)
    valid: dict[str, set[str]] = {}
    for match in VALID.finditer(text):
        valid.setdefault(re.sub(r" \| wps [\d.]+", "", match[1]), set()).add(match[2])
    return training, valid


def assert_same_curve(save: Path, other: Path) -> None:
    """For each update one and the same line, made once or many times; and TensorBoard's, with all digits."""
    training, valid = logged(save)
    assert sorted(training) == list(range(1, UPDATES + 1))
    assert all(len(lines) == 1 for lines in training.values())
    assert (training, valid) == logged(other)
    for board, tag in (("train_inner", "loss"), ("train_inner", "gnorm"), ("valid", "loss")):
        values = curve(save / "tensorboard" / board, tag)
        assert values
        assert values == curve(other / "tensorboard" / board, tag)


def half_written(save: Path) -> dict[Path, int]:
    """The files beside which a checkpoint is being written, or was when a process was killed."""
    found = {}
    for path in save.glob("*.tmp"):
        try:
            found[path] = path.stat().st_mtime_ns
        except FileNotFoundError:
            continue
    return found


def wait_for(run: Run, target: str, save: Path, draw: random.Random, seconds: dict[str, float]) -> None:
    """Wait for a random moment of a phase, or for the end of the run."""
    if target == "writing":
        run.wait_for("training")
        run.wait_for("saving", draw.randint(1, 3))
        before = half_written(save)
        while run.process.poll() is None and half_written(save) == before:
            time.sleep(0.0002)
        time.sleep(draw.uniform(0, 0.005))
    else:
        run.wait_for(target, draw.randint(1, 4) if target in ("saving", "training on") else 1)
        time.sleep(draw.uniform(0, seconds[target]))


def kill_one(run: Run, draw: random.Random) -> bool:
    """Kill one training process, as the kernel does that has no memory left: the command ends, and says how to go on.

    False where there was none, or the run had ended.
    """
    trainings: dict[str, int] = {}
    for number in reversed(run.members()):
        ranks = [entry for entry in environment_of(number) if entry.startswith("RANK=")]
        # A process that reads batches has the command of the training that forked it before it.
        if "--save-dir" in command_of(number) and ("deepnmt.runs.launch" not in command_of(number) or ranks):
            trainings["".join(ranks)] = number
    if not trainings:
        return False
    end(draw.choice(sorted(trainings.values())))
    run.process.wait(timeout=SECONDS)
    if run.process.returncode == 0:
        return False
    assert "train.sh: error: the training ended early; run the same command again to resume from" in run.said()
    run.kill()
    return True


@pytest.mark.slow
@pytest.mark.timeout(5400)
@pytest.mark.parametrize(
    ("processes", "kills", "options"),
    # Batches read by processes of their own in the first.
    [(1, 20, ["--num-workers=2"]), (2, 10, ["--num-workers=0"])],
    ids=["one process", "two processes"],
)
def test_killed_at_random_moments_it_ends_as_if_it_never_was(
    processes: int, kills: int, options: list[str], tmp_path: Path
) -> None:
    draw = random.Random(processes)
    write_corpus(tmp_path / "data")
    (tmp_path / "recipe.yaml").write_text(RECIPE, "utf-8")
    whole = tmp_path / "whole"
    keep_all = ["--keep-interval-updates=-1", "--keep-last-epochs=-1"]
    with start(tmp_path, processes, whole, tmp_path / "whole.log", *options, *keep_all) as run:
        seconds = run.seconds()
    states = {updates_of(state): state for state in map(state_of, checkpoints(whole))}
    assert set(range(INTERVAL, UPDATES + 1, INTERVAL)) <= states.keys()

    killed_in, starts, finished, seen, ended = Counter[str](), 0, 0, 0, False
    while killed_in.total() < kills or not ended:
        save = tmp_path / f"killed-{finished}"
        before = half_written(save)
        with start(tmp_path, processes, save, tmp_path / "start.log", *options) as run:
            alone = False
            if killed_in.total() < kills:
                wait_for(run, TARGETS[starts % len(TARGETS)], save, draw, seconds)
                alone = draw.random() < 0.3 and kill_one(run, draw)
            else:
                run.process.wait()
            ended = not alone and not run.kill()
            phase = run.phase()
        starts += 1
        seen += assert_whole(save, states)
        if not ended:
            killed_in["writing" if half_written(save).items() - before.items() else phase] += 1
            continue
        assert run.process.returncode == 0, run.said()
        assert_same_curve(save, whole)
        assert updates_of(state_of(save / "checkpoint_last.pt")) == UPDATES
        assert not half_written(save)
        shutil.rmtree(save)
        finished += 1
    print(f"{processes} processes: killed in {dict(killed_in)}; {finished} runs ended; {seen} checkpoints were whole")
    assert killed_in["saving"] + killed_in["writing"] >= kills // 5
    assert killed_in["training"] + killed_in["training on"] >= kills // 5
