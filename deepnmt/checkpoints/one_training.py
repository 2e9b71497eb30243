"""Whether checkpoints belong to one training.

A checkpoint names its training (`CheckpointState.training`): a word for its initial options, data and weights. A
training that goes on with other options is a branch. A branch's name joins the name of the training that it left, the
number of updates at that point, and a word of its own:

    WORD                  updates 0 to 20 of a training
    WORD 20 OTHER         the updates from 20 on with other options

Checkpoints of earlier versions, and of fairseq alone, have no name. They are compared by their seed and by the training
time so far.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError

# fairseq's suffix of a checkpoint's name is between this and ".pt".
KEPT = r"checkpoint(\d+|_\d+_\d+|\.best_.+)"


def kept_checkpoints(folder: Path, suffix: str = "") -> list[Path]:
    """Return the checkpoints that a training left beside the last and best one, by name; see --checkpoint-suffix."""
    pattern = re.compile(rf"{KEPT}{re.escape(suffix)}\.pt")
    return sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name)) if folder.is_dir() else []


def passes(training: str, name: str, updates: int) -> bool:
    """Return whether `training` passed through a checkpoint, given its training's `name` and `updates`."""
    words, own = training.split(), name.split()
    rest = words[len(own) :]
    return words[: len(own)] == own and (not rest or updates <= int(rest[0]))


def check_one_training(states: Sequence[CheckpointState]) -> None:
    """Raise `UserError`, which names two of them, if checkpoints differ in training or dictionaries."""
    # All checkpoints that may be averaged with a branch of a branch lie on the way to it.
    reference = max(states, key=lambda state: len((state.training() or "").split()))
    for state, found in _differences(reference, states):
        raise UserError(f"{state.name} cannot be averaged with {reference.name}: {found}")


def difference(reference: CheckpointState, other: CheckpointState) -> str | None:
    """Explain why the training of a checkpoint has not passed through another one; None: no evidence."""
    training, name = reference.training(), other.training()
    if training is not None and name is not None:
        return None if passes(training, name, other.updates()) else "it is of another training"
    seeds = _seed(reference), _seed(other)
    if None not in seeds and seeds[0] != seeds[1]:
        return f"it is of another training, with --seed {seeds[1]}, not {seeds[0]}"
    return None


def _differences(
    reference: CheckpointState, states: Sequence[CheckpointState]
) -> Iterator[tuple[CheckpointState, str]]:
    for state in states:
        if found := difference(reference, state):
            yield state, found
        if None not in (reference.trained_on(), state.trained_on()) and reference.trained_on() != state.trained_on():
            yield state, "it was trained with other dictionaries, codes or text settings"
    unnamed = [state for state in states if state.training() is None]
    for earlier, later in pairwise(sorted(unnamed, key=lambda state: state.updates())):
        times = _seconds(earlier), _seconds(later)
        if None not in times and times[1] < times[0] and earlier.updates() < later.updates():  # type: ignore[operator]
            yield (
                earlier if later is reference else later,
                f"they are of two trainings, since {later.name} took less time than {earlier.name}",
            )


def _seed(state: CheckpointState) -> object:
    with suppress(UserError):
        return state.options("common").get("seed")
    return None


def _seconds(state: CheckpointState) -> float | None:
    with suppress(UserError):
        return state.seconds()
    return None
