"""Whether checkpoints are of one training.

A checkpoint names its training (`CheckpointState.training`). Those of earlier versions, and of fairseq alone, do not:
they are compared by their seed and by the time that the training had taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Optional

from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError

# What fairseq adds to a checkpoint's name is between this and ".pt".
KEPT = r"checkpoint(\d+|_\d+_\d+|\.best_.+)"


def kept_checkpoints(folder: Path, suffix: str = "") -> list[Path]:
    """Return the checkpoints that a training left beside the last and the best one, by name.

    Args:
        folder: of the training
        suffix: --checkpoint-suffix
    """
    pattern = re.compile(rf"{KEPT}{re.escape(suffix)}\.pt")
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name)) if folder.is_dir() else []


def check_one_training(states: Sequence[CheckpointState]) -> None:
    """Refuse checkpoints of several trainings, or of other dictionaries.

    Raises:
        UserError: names two of them
    """
    for state, difference in _differences(states):
        raise UserError(f"{state.name} cannot be averaged with {states[0].name}: {difference}")


def difference(one: CheckpointState, other: CheckpointState) -> Optional[str]:
    """Return in words what shows that a checkpoint is not of the training of another one; None: nothing does."""
    if one.training() is not None and other.training() is not None:
        return None if one.training() == other.training() else "it is of another training"
    seeds = _seed(one), _seed(other)
    if None not in seeds and seeds[0] != seeds[1]:
        return f"it is of another training, with --seed {seeds[1]}, not {seeds[0]}"
    return None


def _differences(states: Sequence[CheckpointState]) -> Iterator[tuple[CheckpointState, str]]:
    first = states[0]
    for state in states[1:]:
        if found := difference(first, state):
            yield state, found
        if None not in (first.trained_on(), state.trained_on()) and first.trained_on() != state.trained_on():
            yield state, "it was trained with other dictionaries, codes or text settings"
    unnamed = [state for state in states if state.training() is None]
    for earlier, later in pairwise(sorted(unnamed, key=lambda state: state.updates())):
        times = _seconds(earlier), _seconds(later)
        if None not in times and times[1] < times[0] and earlier.updates() < later.updates():  # type: ignore[operator]
            yield (
                earlier if later is first else later,
                f"they are of two trainings, since {later.name} took less time than {earlier.name}",
            )


def _seed(state: CheckpointState) -> object:
    with suppress(UserError):
        return state.options("common").get("seed")
    return None


def _seconds(state: CheckpointState) -> Optional[float]:
    with suppress(UserError):
        return state.seconds()
    return None
