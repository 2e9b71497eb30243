"""Checkpoints of one training and of several, and averages of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import pytest
import torch

from deepnmt.checkpoints.averaging import average_checkpoints, choose
from deepnmt.checkpoints.one_training import kept_checkpoints, passes
from deepnmt.errors import UserError


def save(
    path: Path,
    updates: int,
    training: Optional[str] = "one",
    seed: int = 1,
    seconds: Optional[float] = None,
    **extra: Any,
) -> Path:
    """A checkpoint whose only tensor is its number of updates."""
    groups = {"task": {"source_lang": "de"}, "model": {"_name": "transformer"}, "common": {"seed": seed}}
    extra |= {} if training is None else {"training": training}
    extra |= {"previous_training_time": float(updates if seconds is None else seconds)}
    state = {"model": {"x": torch.tensor([float(updates)])}, "cfg": groups, "extra_state": extra}
    torch.save({**state, "optimizer_history": [{"num_updates": updates}]}, path)
    return path


def average_of(*paths: Path) -> float:
    return float(average_checkpoints(list(paths))["model"]["x"])


def record(digest: str) -> dict[str, Any]:
    return {"dictionaries": {"source": {"types": 4, "sha256": digest * 64}}}


def test_one_training_is_averaged(tmp_path: Path) -> None:
    # A training that an earlier version began: its first checkpoints do not name it.
    first, second = save(tmp_path / "1.pt", 10, None), save(tmp_path / "2.pt", 20, None)
    third, fourth = save(tmp_path / "3.pt", 30), save(tmp_path / "4.pt", 50)
    assert average_of(third, fourth) == 40
    assert average_of(first, second, third) == 20


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"training": "other"}, r"b\.pt cannot be averaged with .*a\.pt: it is of another training$"),
        (
            {"training": None, "seed": 2},
            r"b\.pt cannot be averaged with .*a\.pt: it is of another training, with --seed 2, not 1$",
        ),
        (
            {"trained_on": record("b")},
            r"b\.pt cannot be averaged with .*a\.pt: it was trained with other dictionaries, codes or text settings$",
        ),
    ],
)
def test_two_are_not(tmp_path: Path, other: dict[str, Any], message: str) -> None:
    first = save(tmp_path / "a.pt", 10, trained_on=record("a"))
    with pytest.raises(UserError, match=message):
        average_of(first, save(tmp_path / "b.pt", 20, **{"trained_on": record("a"), **other}))


def test_time_tells_two_trainings_of_earlier_versions(tmp_path: Path) -> None:
    early, late = save(tmp_path / "a.pt", 10, None, seconds=99), save(tmp_path / "b.pt", 20, None, seconds=40)
    with pytest.raises(UserError, match=r"they are of two trainings, since .*b\.pt took less time than .*a\.pt$"):
        average_of(early, late)
    assert average_of(early, save(tmp_path / "c.pt", 20, None, seconds=100)) == 15


def test_the_best_is_of_the_training_that_is_chosen(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        save(tmp_path / f"checkpoint{epoch}.pt", 10 * epoch)
    save(tmp_path / "checkpoint_best.pt", 20)
    assert [path.name for path in choose(tmp_path, "until-best", 2)] == ["checkpoint1.pt", "checkpoint2.pt"]
    save(tmp_path / "checkpoint_best.pt", 25, "other")
    message = r"checkpoint1\.pt cannot be averaged with .*checkpoint_best\.pt: it is of another training"
    with pytest.raises(UserError, match=message):
        choose(tmp_path, "until-best", 3)


def test_names_of_kept_checkpoints(tmp_path: Path) -> None:
    kept = ["checkpoint.best_bleu_30.120.pt", "checkpoint2.pt", "checkpoint_2_10.pt"]
    others = ["checkpoint_best.pt", "checkpoint_last.pt", "average.pt", "checkpoint3-a.pt", "checkpoint2.pt.tmp"]
    for name in (*kept, *others):
        (tmp_path / name).touch()
    assert [path.name for path in kept_checkpoints(tmp_path)] == kept
    assert [path.name for path in kept_checkpoints(tmp_path, "-a")] == ["checkpoint3-a.pt"]
    assert kept_checkpoints(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("training", "name", "updates", "right"),
    [
        ("one", "one", 90, True),
        ("one 20 two", "one", 10, True),
        ("one 20 two", "one", 20, True),
        ("one 20 two", "one", 21, False),
        ("one", "one 20 two", 30, False),
        ("one 20 three", "one 20 two", 30, False),
        ("one 20 two 30 three", "one 20 two", 30, True),
        ("one 20 two 30 three", "one 20 two", 40, False),
        ("one 20 two", "three", 10, False),
    ],
)
def test_what_a_training_has_been_through(training: str, name: str, updates: int, right: bool) -> None:
    assert passes(training, name, updates) is right


def test_two_branches_of_a_training_are_not_averaged(tmp_path: Path) -> None:
    stem, early = save(tmp_path / "a.pt", 40), save(tmp_path / "b.pt", 10)
    left, right = save(tmp_path / "c.pt", 30, "one 20 two"), save(tmp_path / "d.pt", 50, "one 20 three")
    assert average_of(early, left) == 20
    with pytest.raises(UserError, match=r"a\.pt cannot be averaged with .*c\.pt: it is of another training$"):
        average_of(early, left, stem)
    # Each fits the first alone.
    with pytest.raises(UserError, match=r"d\.pt cannot be averaged with .*c\.pt: it is of another training$"):
        average_of(early, left, right)
