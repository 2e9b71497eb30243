"""What train.sh runs: the precision, on made-up GPUs; torchrun for several; one training at a time in a folder."""

from __future__ import annotations

import fcntl
import os
import shlex
import sys
from pathlib import Path

import pytest
import torch
from support.data_folders import data_folder

from deepnmt.errors import UserError
from deepnmt.commands import train

RECIPE = "arch: dlcl_transformer_tiny\noptimizer: adam\nmax-tokens: 100\nlr: 0.001\nbf16: true\n"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """RECIPE, DATA and SAVE; output is not copied to a log."""
    (tmp_path / "r.yaml").write_text(RECIPE, encoding="utf-8")
    monkeypatch.setattr(train, "copy_output", lambda log: None)
    return [str(tmp_path / "r.yaml"), str(data_folder(tmp_path / "data", ["train", "valid"])), str(tmp_path / "save")]


def start(monkeypatch: pytest.MonkeyPatch, gpus: int, *arguments: str) -> list[str]:
    """The command line of fairseq-train on a machine with so many GPUs."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    train.main()
    return sys.argv


def test_precision_of_the_recipe_on_a_gpu(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command = start(monkeypatch, 1, *places)
    assert command[:2] == ["fairseq-train", places[1]]
    assert [word for word in command if word.endswith(("fp16", "bf16", "amp", "--cpu"))] == ["--bf16"]
    assert Path(places[2]).is_dir()


def test_two_precisions_are_refused(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"r\.yaml:5: bf16 must be the only precision, but stands beside amp"):
        start(monkeypatch, 1, *places, "--amp")
    assert not Path(places[2]).exists()


def test_folder_of_a_training_that_still_works_is_refused(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "LOCK_SECONDS", 0.3)
    save = Path(places[2])
    save.mkdir()
    with (save / "train.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=f"^SAVE must not be in use, but another training is .* in '{save}'$"):
            start(monkeypatch, 0, *places, "--bf16")
    assert [path.name for path in save.iterdir()] == ["train.lock"]
    start(monkeypatch, 0, *places)
    # A training that is killed may leave children behind, which have its files.
    held = train.KEPT[-1]
    assert os.get_inheritable(held.fileno())  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="SAVE must not be in use"):
        start(monkeypatch, 0, *places)


@pytest.mark.parametrize(
    ("gpus", "options", "place", "share"),
    [
        (2, [], "--standalone --nproc-per-node 2", 2),
        (2, ["--processes", "4"], "--standalone --nproc-per-node 4", 1),
        (
            1,
            ["--nodes", "2", "--node", "1", "--master", "fd00::1:29500"],
            "--nnodes 2 --node-rank 1 --master-addr fd00::1 --master-port 29500 --nproc-per-node 1",
            2,
        ),
    ],
)
def test_several_processes_are_torchruns(
    places: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    gpus: int,
    options: list[str],
    place: str,
    share: int,
) -> None:
    (tmp_path / "r.yaml").write_text(f"{RECIPE}batches-per-update: 4\n", encoding="utf-8")
    tools = tmp_path / "bin"
    tools.mkdir()
    calls = tmp_path / "calls"
    for name in ("torchrun", "fairseq-train"):
        (tools / name).write_text(f'#!/bin/sh\necho "$@" >{shlex.quote(str(calls))}\nexit 3\n')
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    with pytest.raises(SystemExit, match="1"):
        start(monkeypatch, gpus, *places, *options)
    given = calls.read_text().strip()
    assert given.startswith(f"{place} {tools}/fairseq-train {places[1]} --user-dir ")
    assert f"--update-freq={share}" in given.split()
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"+ torchrun {given}"
    assert said[1].startswith("train.sh: error: the training ended early; run the same command again to resume from")
