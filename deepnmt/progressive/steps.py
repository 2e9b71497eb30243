"""What happens between two stages."""

from pathlib import Path

from deepnmt.checkpoints.grow.grow_model import grow_state
from deepnmt.checkpoints.rewrite import rewrite_file
from deepnmt.checkpoints.state import BEST, CheckpointState
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.progressive.folders import LAST
from deepnmt.progressive.stages import Stage


def grow_stage(before: Stage, stage: Stage, save: Path) -> list[str]:
    """Write the checkpoint that a stage starts from, whole or not at all, and return what was done, a line a fact.

    Args:
        before: the stage that is done
        stage: the next
        save: the folder of all stages

    Raises:
        UserError: the stage's end has come before it began, or its checkpoint exists
    """
    source, target = save / before.name / LAST, save / stage.name / LAST
    return rewrite_file(source, target, lambda state, config: _grown(state, config, before, stage))


def _grown(
    old: CheckpointState, config: DLCLTransformerConfig, before: Stage, stage: Stage
) -> tuple[CheckpointState, list[str]]:
    assert stage.growth is not None
    state, lines = grow_state(old, config, stage.growth, stage.flag("carry-moments"), stage.flag("keep-schedule"))
    # The best score of a deeper model is its own; where there is none, --patience counts anew.
    state = state.without(BEST)
    if stage.batch != before.batch and state.amid_epoch():
        # A position is a number of batches, and means nothing where they are cut otherwise.
        state = state.at_epoch(state.epoch() + 1)
        lines.append(f"data: from the start of epoch {state.epoch()}, since batches get another size")
    _check_room(before, stage, state.updates(), state.epoch())
    return state, lines


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
