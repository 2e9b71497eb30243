"""Write what the torch engine reads: the checkpoints, without what only a training needs."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

from deepnmt.checkpoints.file import write as write_checkpoint
from deepnmt.checkpoints.state import CheckpointState, new_contents
from deepnmt.errors import UserError


def write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None:
    """Write model.pt, and of an ensemble model2.pt, model3.pt, ...

    Args:
        checkpoints: fairseq's
        data: folder of the data that they were trained on
        folder: to write into
        weights: type of the numbers

    Raises:
        UserError: a checkpoint cannot be read, or the disk is full
    """
    if weights != "float32":
        raise UserError(f"--weights {weights}: --engine torch has float32 alone")
    for number, path in enumerate(checkpoints, start=1):
        write_checkpoint(_model_alone(CheckpointState.of(path)), folder / f"model{number if number > 1 else ''}.pt")


def _model_alone(state: CheckpointState) -> dict[str, Any]:
    """Return a checkpoint without optimizer, scores, and the paths of the machine that it was trained on."""
    if state.is_old():
        options: dict[str, Any] = {"cfg": None, "args": Namespace(**{**state.options(), "data": "."})}
    else:
        cfg = {group: state.options(group) for group in ("model", "task")}
        options = {"cfg": {**cfg, "task": {**cfg["task"], "data": "."}}}
    # What the task keeps says in which direction a model writes.
    kept = {"task_state": state.contents.get("task_state") or {}}
    return {**new_contents({}, state.tensors()), **options, **kept}
