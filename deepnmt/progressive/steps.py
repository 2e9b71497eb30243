"""What happens between two stages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepnmt.checkpoints.file import check_target, read, write
from deepnmt.checkpoints.grow import grow
from deepnmt.errors import UserError
from deepnmt.progressive.folders import LAST
from deepnmt.progressive.stages import Stage

# The best score of a deeper model is its own; where there is none, --patience counts anew.
BEST = "best"


def grow_stage(before: Stage, stage: Stage, save: Path) -> list[str]:
    """Write the checkpoint that a stage starts from, whole or not at all, and say what was done, a line a fact.

    Args:
        before: the stage that is done
        stage: the next
        save: the folder of all stages

    Raises:
        UserError: the stage's end has come before it began, or its checkpoint exists
    """
    assert stage.growth is not None
    source, target = save / before.name / LAST, save / stage.name / LAST
    check_target(source, target)
    state, lines = grow(read(source), stage.growth, stage.flag("carry-moments"), stage.flag("keep-schedule"))
    extra = {key: value for key, value in state["extra_state"].items() if key != BEST}
    position = extra["train_iterator"]
    if stage.batch != before.batch and position["iterations_in_epoch"]:
        # A position is a number of batches, and means nothing where they are cut otherwise.
        position = {**position, "epoch": position["epoch"] + 1, "iterations_in_epoch": 0}
        lines.append(f"data: from the start of epoch {position['epoch']}, since batches get another size")
    _check_room(before, stage, _updates(state), position["epoch"])
    write({**state, "extra_state": {**extra, "train_iterator": position}}, target)
    return lines


def _updates(state: Mapping[str, Any]) -> int:
    return int(state["optimizer_history"][-1]["num_updates"])


def _check_room(before: Stage, stage: Stage, updates: int, epoch: int) -> None:
    if 0 < stage.end("max-update") <= updates:
        raise UserError(
            f"stage {stage.number}: max-update must be above the {updates} updates of stage {before.number}, "
            f"but is {stage.end('max-update')}"
        )
    if 0 < stage.end("max-epoch") < epoch:
        raise UserError(
            f"stage {stage.number}: max-epoch must be at least {epoch}, the epoch that comes after stage "
            f"{before.number}, but is {stage.end('max-epoch')}"
        )
