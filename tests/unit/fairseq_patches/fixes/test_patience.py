"""--patience: a training that is stopped and goes on ends where one that is not stopped ends."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.restarts import train_until
from support.trainings import binarised_text

from deepnmt.checkpoints.file import read
from deepnmt.checkpoints.grow import Growth, grow_checkpoint
from deepnmt.checkpoints.state import PATIENCE

# A rate at which the loss soon rises; three validations an epoch.
OPTIONS = ["--max-tokens=80", "--lr=0.3", "--validate-interval-updates=2", "--save-interval-updates=2"]
OPTIONS += ["--no-epoch-checkpoints", "--keep-interval-updates=1", "--patience=3", "--max-update=60", "--dropout=0.1"]
OPTIONS += ["--encoder-layers=1", "--decoder-layers=1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(binarised_text(tmp_path_factory.mktemp("text")))]


@pytest.fixture(scope="module")
def whole(data: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """Number of updates, and last checkpoint, of a training that patience ended."""
    save = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as monkeypatch:
        done = train_until(monkeypatch, data, save, *OPTIONS)
    assert 6 <= len(done) < 60
    return len(done), save / "checkpoint_last.pt"


def assert_same(one: Path, other: Path) -> None:
    first, second = read(one), read(other)
    assert first["optimizer_history"][-1]["num_updates"] == second["optimizer_history"][-1]["num_updates"]
    assert first["extra_state"][PATIENCE] == second["extra_state"][PATIENCE]
    assert all(torch.equal(first["model"][name], second["model"][name]) for name in first["model"])


@pytest.mark.slow
@pytest.mark.parametrize("before_the_end", [1, 2, 3, 5])
def test_goes_on_to_the_same_end(
    data: list[str],
    whole: tuple[int, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before_the_end: int,
) -> None:
    updates, last = whole
    train_until(monkeypatch, data, tmp_path, *OPTIONS, killed_at=updates - before_the_end)
    saved = read(tmp_path / "checkpoint_last.pt")
    assert saved["optimizer_history"][-1]["num_updates"] < updates
    done = train_until(monkeypatch, data, tmp_path, *OPTIONS)
    assert done[-1] == updates - 1
    assert_same(tmp_path / "checkpoint_last.pt", last)


def test_ended_training_makes_no_further_update(
    data: list[str], whole: tuple[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, last = whole
    copy = tmp_path / "checkpoint_last.pt"
    copy.write_bytes(last.read_bytes())
    assert train_until(monkeypatch, data, tmp_path, *OPTIONS) == []
    assert copy.read_bytes() == last.read_bytes()


def test_more_patience_goes_on_and_counts_on(
    data: list[str], whole: tuple[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates, last = whole
    (tmp_path / "checkpoint_last.pt").write_bytes(last.read_bytes())
    done = train_until(monkeypatch, data, tmp_path, *OPTIONS, "--patience=4")
    assert done[0] == updates
    count = read(tmp_path / "checkpoint_last.pt")["extra_state"][PATIENCE]
    best = read(last)["extra_state"][PATIENCE]["best"]
    assert count["runs"] == 4 or count["best"] < best


RESET = ["--reset-meters"]
GROWN = ["--encoder-layers=2"]


@pytest.mark.parametrize("more", [RESET, GROWN], ids=["reset", "grown"])
def test_a_new_count_where_scores_are_reset_or_the_model_has_grown(
    data: list[str], whole: tuple[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    updates, last = whole
    checkpoint = tmp_path / "checkpoint_last.pt"
    if more == GROWN:
        grow_checkpoint(last, checkpoint, Growth({"encoder": 2}))
    else:
        checkpoint.write_bytes(last.read_bytes())
    done = train_until(monkeypatch, data, tmp_path, *OPTIONS, *more, f"--max-update={updates + 2}")
    assert done == [updates, updates + 1]
    assert read(checkpoint)["extra_state"][PATIENCE]["runs"] == 0
