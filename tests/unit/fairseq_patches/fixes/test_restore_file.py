"""A training that begins with --restore-file and is stopped: the same command resumes it."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from support.restarts import train_until
from support.slow import slow_but
from support.trainings import binarised_text, fairseq_train

import deepnmt
from deepnmt import console
from deepnmt.checkpoints.file import read
from deepnmt.errors import UserError

deepnmt.register()
SMALL = ["--max-tokens=200", "--encoder-layers=1", "--decoder-layers=1", "--share-all-embeddings"]
SMALL += ["--no-epoch-checkpoints", "--save-interval-updates=1", "--keep-interval-updates=1", "--disable-validation"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(binarised_text(tmp_path_factory.mktemp("text")))]


@pytest.fixture
def begun(data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint of three updates."""
    train_until(monkeypatch, data, tmp_path / "begun", *SMALL, "--max-update=3")
    return tmp_path / "begun" / "checkpoint_last.pt"


def model(save: Path) -> dict[str, Any]:
    tensors: dict[str, Any] = read(save / "checkpoint_last.pt")["model"]
    return tensors


@pytest.mark.parametrize(
    "reset", slow_but([["optimizer"]], [[], ["optimizer"], ["optimizer", "lr-scheduler", "meters", "dataloader"]])
)
def test_the_same_command_resumes(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: Path, reset: list[str]
) -> None:
    first = 0 if reset else 3
    options = [*SMALL, f"--restore-file={begun}", *(f"--reset-{what}" for what in reset)]
    options += [f"--max-update={first + 6}"]
    assert train_until(monkeypatch, data, tmp_path / "whole", *options) == [*range(first, first + 6)]
    # Killed twice, and each time what was done is not done again.
    stopped = tmp_path / "stopped"
    assert train_until(monkeypatch, data, stopped, *options, killed_at=first + 2) == [first, first + 1]
    assert train_until(monkeypatch, data, stopped, *options, killed_at=first + 4) == [first + 2, first + 3]
    assert train_until(monkeypatch, data, stopped, *options) == [first + 4, first + 5]
    assert train_until(monkeypatch, data, stopped, *options) == []
    whole, resumed = model(tmp_path / "whole"), model(stopped)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_the_file_may_be_gone(data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: Path) -> None:
    options = [*SMALL, f"--restore-file={begun}", "--max-update=6"]
    train_until(monkeypatch, data, tmp_path / "save", *options, killed_at=4)
    begun.unlink()
    assert train_until(monkeypatch, data, tmp_path / "save", *options) == [4, 5]


@pytest.mark.slow
def test_one_goes_back(data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: Path) -> None:
    save = tmp_path / "save"
    train_until(monkeypatch, data, save, *SMALL, "--max-update=5")
    # That training did not begin with the file.
    back = [*SMALL, f"--restore-file={begun}", "--max-update=6"]
    assert train_until(monkeypatch, data, save, *back, killed_at=5) == [3, 4]
    # This one did, whatever its time is after a copy.
    os.utime(begun, ns=(2**61, 2**61))
    assert train_until(monkeypatch, data, save, *back, killed_at=5) == []
    # Not with one that has been made anew since.
    train_until(monkeypatch, data, begun.parent, *SMALL, "--max-update=4")
    assert train_until(monkeypatch, data, save, *back, killed_at=5) == [4]


def test_a_last_checkpoint_that_cannot_be_read_is_not_written_over(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun: Path
) -> None:
    save = tmp_path / "save"
    save.mkdir()
    (save / "checkpoint_last.pt").write_bytes(b"no checkpoint")
    with pytest.raises(UserError, match=rf"^{save}/checkpoint_last\.pt: must be a"):
        train_until(monkeypatch, data, save, *SMALL, f"--restore-file={begun}", "--max-update=6")
    assert (save / "checkpoint_last.pt").read_bytes() == b"no checkpoint"


def test_a_program_begins_without_the_file(data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [*SMALL, f"--restore-file={tmp_path}/none.pt"]
    assert train_until(monkeypatch, data, tmp_path / "save", *options, "--max-update=2") == [0, 1]
    # As fairseq does, and its tests expect: there is no file to have begun with.
    assert train_until(monkeypatch, data, tmp_path / "save", *options, "--max-update=2") == [0, 1]


@pytest.mark.parametrize("command", [True, False])
def test_a_finished_training_ends_a_command_alone(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: bool
) -> None:
    options = [*SMALL, "--max-update=2"]
    train_until(monkeypatch, data, tmp_path, *options)
    monkeypatch.setattr(console, "_runs", command)
    with pytest.raises(SystemExit, match=r"^0$") if command else nullcontext():
        assert fairseq_train(monkeypatch, data, tmp_path, *options) == {}
