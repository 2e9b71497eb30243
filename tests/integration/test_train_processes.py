"""train.sh with several processes: the update of one process, and a clear end and a restart when one is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from support import warm
from support.distributed_runs import OPTIONS, ROOT, SECONDS, SMOOTHED, largest_difference, parameters, run, write_corpus
from support.processes import finish, started, wait_until

TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "data")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`OPTIONS` as a recipe, with two batches an update on whatever there is."""
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    lines = [f"{name[2:]}: {value}" for name, value in _pairs([*OPTIONS, *SMOOTHED]).items()]
    path.write_text("\n".join([*lines, "batches-per-update: 2"]), "utf-8")
    return path


def _pairs(options: list[str]) -> dict[str, str]:
    """Without what train.sh gives itself."""
    rest = [option for option in options if option != "--cpu"]
    pairs = dict(zip(rest[::2], rest[1::2]))
    del pairs["--user-dir"]
    return pairs


Training = contextlib.AbstractContextManager[subprocess.Popen[str]]


def train(recipe: Path, data: Path, save: Path, processes: int, *options: str) -> Training:
    command = [ROOT / "scripts" / "train.sh", recipe, data, save, *options]
    environment = {**os.environ, **warm.environment(), "PROCESSES": str(processes), "CUDA_VISIBLE_DEVICES": ""}
    return started(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def succeed(training: Training) -> str:
    with training as process:
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, out[-2000:] + err[-2000:]
    return out + err


@pytest.fixture(scope="module")
def one(recipe: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where a process has trained alone, and what train.sh has said."""
    save = tmp_path_factory.mktemp("one") / "save"
    return save, succeed(train(recipe, data, save, 1))


def test_two_processes_make_the_updates_of_one(one: tuple[Path, str], recipe: Path, data: Path, tmp_path: Path) -> None:
    two = succeed(train(recipe, data, tmp_path / "two", 2))
    assert "+ fairseq-train" in one[1]
    assert "--update-freq=2" in one[1]
    assert "--nproc-per-node 2" in two
    assert "--update-freq=1" in two
    assert largest_difference(parameters(one[0]), parameters(tmp_path / "two")) < TOLERANCE


@pytest.mark.slow
def test_lost_process_ends_the_training_which_goes_on_when_started_again(
    recipe: Path, data: Path, tmp_path: Path
) -> None:
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    options = ["--max-update", "30", "--save-interval-updates", "1", "--keep-interval-updates", "1"]
    options += ["--no-epoch-checkpoints"]
    run(options, 2, data, undisturbed)
    with train(recipe, data, disturbed, 2, *options) as process:
        wait_until((disturbed / "checkpoint_last.pt").exists, process)
        workers = [number for number in processes() if f"--save-dir {disturbed}" in command_line(number)]
        ranks = {environment(number).get("RANK"): number for number in workers if "RANK" in environment(number)}
        os.kill(ranks["1"], signal.SIGKILL)
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode not in (0, None)
    assert "train.sh: error: the training ended early; run the same command again to resume from the last" in err
    succeed(train(recipe, data, disturbed, 2, *options))
    expected, got = parameters(undisturbed), parameters(disturbed)
    assert expected.keys() == got.keys()
    assert all(expected[name].equal(got[name]) for name in expected)


SRUN = """#!/usr/bin/env bash
# Two machines in one: the task of each.
set -euo pipefail
shift
SLURM_NODEID=1 "$@" &
SLURM_NODEID=0 "$@"
wait $!
"""


@pytest.mark.slow
def test_two_machines_under_slurm_make_the_updates_of_one(
    one: tuple[Path, str], recipe: Path, data: Path, tmp_path: Path
) -> None:
    for name, text in {"srun": SRUN, "scontrol": "#!/bin/sh\necho localhost\n"}.items():
        (tmp_path / name).write_text(text, "ascii")
        (tmp_path / name).chmod(0o755)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        job = probe.getsockname()[1]  # for a port that is free
    slurm = {"SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "localhost,localhost", "SLURM_JOB_ID": str(job)}
    slurm |= {"SLURM_SUBMIT_DIR": str(ROOT), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    save = tmp_path / "save"
    done = finish(
        [ROOT / "examples" / "distributed" / "train.sbatch", recipe, data, save],
        env={**os.environ, **warm.environment(), **slurm, "PROCESSES": "1", "CUDA_VISIBLE_DEVICES": ""},
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert largest_difference(parameters(one[0]), parameters(save)) < TOLERANCE
    assert f"--node-rank 1 --master-addr localhost --master-port {20000 + job % 20000}" in done.stderr
    assert "num_updates=" in (save / "train.log").read_text("utf-8")
    assert "num_updates=" not in (save / "train.node-1.log").read_text("utf-8")


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def command_line(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def environment(number: int) -> dict[str, str]:
    try:
        content = Path(f"/proc/{number}/environ").read_bytes().decode()
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in content.split("\0") if "=" in line)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"PROCESSES": "two"}, "PROCESSES must be a whole number from 1 to 1024, but is 'two'"),
        ({"NODES": "2", "NODE": "0"}, "MASTER must be HOST:PORT of machine 0, but is ''"),
        ({"NODES": "2", "NODE": "2", "MASTER": "a:1"}, "NODE must be a whole number from 0 to 1, but is '2'"),
        ({"NODES": "2", "MASTER": "a:1"}, "NODE must be a whole number from 0 to 1, but is ''"),
    ],
)
def test_wrong_setting_is_refused(
    setting: dict[str, str], message: str, recipe: Path, data: Path, tmp_path: Path
) -> None:
    command = [str(ROOT / "scripts" / "train.sh"), str(recipe), str(data), str(tmp_path / "save")]
    done = subprocess.run(
        command,
        env={**os.environ, **warm.environment(), **setting},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"train.sh: error: {message}"]
