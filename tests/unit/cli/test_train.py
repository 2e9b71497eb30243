"""`deepnmt train`: names of recipes, the words of fairseq-train, and what it says when a training ends early."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.models import ROOT

from deepnmt import cli
from deepnmt.console import run
from deepnmt.errors import UserError
from deepnmt.runs import supervision


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines of trainings, which end at once."""
    found: list[list[str]] = []

    def run_process(command: Sequence[str]) -> int:
        found.append(list(command))
        return 0

    monkeypatch.setattr(supervision, "run_process", run_process)
    return found


def test_a_recipe_is_a_name_or_a_file(started: list[list[str]], tmp_path: Path) -> None:
    mine = tmp_path / "my.yaml"
    mine.touch()
    for name, path in (("deep-12", ROOT / "configs" / "deep-12.yaml"), (str(mine), mine)):
        cli.call("train", [name, "data", "save", "--max-update", "-3", "--lr=1", "positional"])
        words = ["deepnmt.runs.training", str(path), "data", "save", "--max-update", "-3", "--lr=1", "positional"]
        assert started.pop()[-8:] == words
    with pytest.raises(UserError, match=r"^RECIPE must be a file, or a name that 'deepnmt recipe' lists, but there is"):
        cli.call("train", ["none", "data", "save"])


@pytest.mark.parametrize("words", [[], ["deep-12", "data"], ["deep-12", "data", "--lr", "1", "save"]])
def test_arguments_stand_before_options(words: list[str], started: list[list[str]]) -> None:
    message = r"^RECIPE, DATA and SAVE must be given, before any option of fairseq-train \(see --help\)$"
    with pytest.raises(UserError, match=message):
        cli.call("train", words)
    assert not started


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"PROCESSES": "0"}, "PROCESSES must be a whole number from 1 to 1024, but is '0'"),
        ({"NODES": "1e9"}, "NODES must be a whole number from 1 to 65536, but is '1e9'"),
        ({"NODES": "2", "NODE": "0", "MASTER": "a"}, "MASTER must be HOST:PORT of machine 0, but is 'a'"),
        ({"NODES": "2", "SLURM_NODEID": "2", "MASTER": "a:1"}, "NODE must be a whole number from 0 to 1, but is '2'"),
    ],
)
def test_a_faulty_place_is_refused_before_anything(
    setting: dict[str, str], message: str, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match=f"^{message}$"):
        cli.call("train", ["deep-12", "data", "save"])
    assert not started


@pytest.mark.parametrize("checkpoints", [(), ("checkpoint_last.pt",)], ids=["no-checkpoint", "a-checkpoint"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "interrupted"])
def test_what_the_same_command_would_do(
    killed: bool,
    checkpoints: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name in checkpoints:
        (tmp_path / name).touch()
    work = "kill -9 $$" if killed else f"kill -INT {os.getpid()}; sleep 60"
    monkeypatch.setattr(supervision, "module", lambda *_: ["bash", "-c", work])
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # for the test's own process
    with pytest.raises(SystemExit, match=f"^{137 if killed else 130}$"):
        run(lambda: cli.call("train", ["deep-12", "data", str(tmp_path)]), "train.sh")
    again = f"resume from the last checkpoint in {tmp_path}" if checkpoints else "start over"
    how = "deepnmt train: error: the training ended early" if killed else "train.sh: interrupted"
    assert capfd.readouterr().err.splitlines()[-1] == f"{how}; run the same command again to {again}"


def test_help_is_asked_for_anywhere(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["deepnmt"])
    for words in (["-h"], ["deep-12", "data", "save", "--lr", "1", "--help"]):
        with pytest.raises(SystemExit, match=r"^0$"):
            cli.call("train", words)
        assert capsys.readouterr().out.startswith("usage: deepnmt train RECIPE DATA SAVE [--both-directions")
