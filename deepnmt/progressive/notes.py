"""Note what a finished stage of progressive training reached: its line in stages.tsv, and its stage.json.

stage.json says that the stage is done, and is written last.
"""

import json
from pathlib import Path
from typing import Any

from deepnmt import console
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.progressive.folders import DONE, LAST
from deepnmt.text.lines import whole_text

TABLE = "stages.tsv"
MODEL = ("encoder_layers", "decoder_layers", "encoder_groups", "decoder_groups")


def summary(folder: Path, checkpoint: str) -> dict[str, Any]:
    """What a stage reached.

    Args:
        folder: stage-N-DEPTH, with checkpoint_last.pt and valid/scores.json
        checkpoint: name of the one that was scored

    Returns:
        the fields of stage.json; `epochs` are those that are complete, with a plus where another has begun, `seconds`
        those of training since the first stage began, `valid_loss` the best validation, or `valid_` with the name of
        another metric by which the best checkpoint is chosen
    """
    state = CheckpointState.of(folder / LAST, numbers=False)
    try:
        scores = json.loads(whole_text(folder / "valid" / "scores.json"))
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}: no scores; run score.sh") from None
    options, metric = state.options(), state.options("checkpoint").get("best_checkpoint_metric", "loss")
    return {
        "stage": int(folder.name.split("-")[1]),
        **{name: options[name] for name in MODEL},
        "updates": state.updates(),
        "epochs": f"{state.epoch() - 1}{'+' if state.amid_epoch() else ''}",
        "seconds": round(state.seconds()),
        f"valid_{metric}": state.best(),
        **{name: score["score"] for name, score in scores.items()},
        "checkpoint": checkpoint,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Lines of fields between tabs, their names first."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([_text(row.get(name)) for name in names] for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines)


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def note(folder: Path, checkpoint: str) -> None:
    """Write what a stage reached.

    Args:
        folder: of the stage
        checkpoint: name of the one that was scored

    Raises:
        UserError: it has not been scored
    """
    row = summary(folder, checkpoint)
    noted = (json.loads(whole_text(path)) for path in folder.parent.glob("stage-*/stage.json"))
    rows = [*sorted((r for r in noted if r["stage"] < row["stage"]), key=lambda r: int(r["stage"])), row]
    with console.whole_file(folder.parent / TABLE) as temporary:
        temporary.write_text(table(rows), encoding="utf-8")
    with console.whole_file(folder / DONE) as temporary:
        temporary.write_text(json.dumps(row, indent=2) + "\n", encoding="utf-8")
