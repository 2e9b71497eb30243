"""The mean of the parameters of several checkpoints of one training.

Copies of a checkpoint count once. The copies checkpoint_best.pt and checkpoint_last.pt serve only for updates without
a checkpointE.pt or checkpoint_E_U.pt.
"""

import re
import sys
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import torch

from deepnmt import console
from deepnmt.checkpoints.file import write
from deepnmt.checkpoints.one_training import check_one_training
from deepnmt.checkpoints.state import AVERAGES, CheckpointState, Tensors
from deepnmt.errors import UserError

NUMBERED = re.compile(r"checkpoint(\d+|_\d+_\d+)\.pt")
BEST, LAST = "checkpoint_best.pt", "checkpoint_last.pt"


def find_checkpoints(folder: Path) -> dict[int, Path]:
    """Return the checkpoints of a folder by their update, in order, each update once."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    names = {path.name for path in folder.iterdir()}
    numbered = sorted(filter(NUMBERED.fullmatch, names))
    found: dict[int, Path] = {}
    for name in [*numbered, *(name for name in (BEST, LAST) if name in names)]:
        path = folder / name
        found.setdefault(CheckpointState.of(path, numbers=False).updates(), path)
    return dict(sorted(found.items()))


def window(updates: list[int], centre: int, size: int) -> list[int]:
    """Return `size` of `updates` around `centre`, as even as the ends of the list allow, else one more after."""
    start = updates.index(centre) - (size - 1) // 2
    start = max(0, min(start, len(updates) - size))
    return updates[start : start + size]


def choose(folder: Path, which: str, size: int) -> list[Path]:
    """Return `size` checkpoints of a folder, the oldest first; `which` is last, until-best or around-best.

    Raises:
        UserError: there are not as many, or they are of several trainings
    """
    if size < 1:
        raise UserError(f"--{which} must be at least 1, but is {size}")
    found = find_checkpoints(folder)
    if which == "until-best":
        best = CheckpointState.of(folder / BEST, numbers=False).updates()
        found = {update: path for update, path in found.items() if update <= best}
    if len(found) < size:
        kind = f"checkpoints up to {BEST}" if which == "until-best" else "checkpoints"
        raise UserError(f"--{which} must be at most the number of {kind} in {folder}, {len(found)}, but is {size}")
    updates = list(found)
    if which == "around-best":
        centre = CheckpointState.of(folder / BEST, numbers=False).updates()
        chosen = [found[update] for update in window(updates, centre, size)]
    else:
        chosen = [found[update] for update in updates[-size:]]
    by = [] if which == "last" else [folder / BEST]
    check_one_training([CheckpointState.of(path, numbers=False) for path in [*by, *chosen]])
    return chosen


def check_same_model(paths: list[Path], models: Sequence[Tensors]) -> None:
    """Raise `UserError` naming the first tensor in which the models differ."""
    first = models[0]
    for path, model in zip(paths[1:], models[1:]):
        for name in [*first, *model]:
            if name not in first or name not in model:
                has, lacks = (paths[0], path) if name in first else (path, paths[0])
                raise UserError(f"checkpoints of different models: {name} is in {has}, but not in {lacks}")
            if first[name].shape != model[name].shape:
                raise UserError(
                    f"checkpoints of different models: {name} is {tuple(first[name].shape)} in {paths[0]}, "
                    f"but {tuple(model[name].shape)} in {path}"
                )


def place(name: str, tensor: torch.Tensor) -> Hashable:
    """Return the place of a tensor in memory, which only tied tensors have in common."""
    if tensor.numel() == 0:
        return name
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype


def mean(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Return the mean, summed in float64; of whole numbers, which count something, the newest."""
    if not tensors[-1].is_floating_point():
        return tensors[-1].clone()
    total = torch.zeros(tensors[-1].shape, dtype=torch.float64)
    for tensor in tensors:
        total += tensor
    return (total / len(tensors)).to(tensors[-1].dtype)


def average(models: Sequence[Tensors], advance: Callable[[], object] = lambda: None) -> dict[str, torch.Tensor]:
    """Return the mean of the models, ordered with the newest last. Parameters tied in all models stay tied.

    `advance` is called after each tensor.
    """
    done: dict[Hashable, torch.Tensor] = {}
    averaged: dict[str, torch.Tensor] = {}
    for name in models[-1]:
        tensors = [model[name] for model in models]
        key = tuple(place(name, tensor) for tensor in tensors)
        if key not in done:
            done[key] = mean(tensors)
        averaged[name] = done[key]
        advance()
    return averaged


def average_checkpoints(paths: list[Path]) -> dict[str, Any]:
    """Return the newest checkpoint with the mean of the models in place of its model, without the optimizer.

    Raises:
        UserError: they belong to several trainings, their models differ in shape, or one cannot be read
    """
    states = [CheckpointState.of(path) for path in paths]
    for state in states:
        state.check_trained()
    models = [state.tensors() for state in states]
    check_one_training(states)
    check_same_model(paths, models)
    newest = states[-1].without(*AVERAGES).without_optimizer()
    with console.progress(len(models[-1]), "averaging", " tensors") as bar:
        return dict(newest.with_models(lambda _: average(models, bar.update)).contents)


def write_average(folder: Path, output: Path, which: str, size: int) -> list[Path]:
    """Write the mean of several checkpoints of a training to `output`, and return their paths; see `choose`.

    Raises:
        UserError: see `choose` and `average_checkpoints`; or the file has the name of a checkpoint of a training
    """
    if NUMBERED.fullmatch(output.name) or output.name in (BEST, LAST):
        raise UserError(f"OUT.pt must not be named like a checkpoint of the training, but is {output.name}")
    paths = choose(folder, which, size)
    # Not at the top: it imports fairseq, which takes seconds, and what is refused above is refused at once.
    from deepnmt.checkpoints.trained_model import check_model

    for path in paths:
        check_model(CheckpointState.of(path, numbers=False))
    print("averaging " + " ".join(path.name for path in paths), file=sys.stderr)
    write(average_checkpoints(paths), output)
    return paths
