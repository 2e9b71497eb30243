"""Run the stages of a recipe one after the other, from the first unfinished one.

A stage has a folder, with the recipe that it is made from. Between two stages the model grows. A finished stage has its
results in stages.tsv and in its stage.json, which marks the stage as done, and is written last.
"""

import contextlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deepnmt.checkpoints.grow import grow_state
from deepnmt.checkpoints.rewrite import rewrite_file
from deepnmt.checkpoints.state import BEST, CheckpointState
from deepnmt.console import write_whole
from deepnmt.errors import UserError
from deepnmt.jobs.child_steps import run_step
from deepnmt.jobs.in_place import InPlace
from deepnmt.jobs.job import locked
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.progressive.plan import plan_stages
from deepnmt.progressive.stages import ENDS, Stage
from deepnmt.recipe import to_arguments
from deepnmt.text.columns import in_columns
from deepnmt.text.data_folder import check_dictionaries, check_subset, check_texts
from deepnmt.text.data_record import identity_of_data
from deepnmt.text.lines import read_text, whole_text
from deepnmt.text.record import CONTENTS, difference, write_record
from deepnmt.text.settings import TextSettings
from deepnmt.text.training_data import check_named_data

RECIPE, LAST, DONE = "recipe.yaml", "checkpoint_last.pt", "stage.json"


def prepare(stages: Sequence[Stage], save: Path, extra: Sequence[str], data: str) -> None:
    """Make the folder of each stage, with its recipe for deepnmt train.

    Args:
        stages: stages of the recipe
        save: the folder of all stages
        extra: arguments of fairseq-train
        data: DATA, or DATA0:DATA1:..., which are trained on in turn

    Raises:
        UserError: the folder holds stages of another recipe or other data, which are not to be mixed with these
    """
    identity = ":".join(identity_of_data(Path(folder)) for folder in data.split(os.pathsep))
    texts = {stage.name: recipe_text(stage, len(stages), extra, identity) for stage in stages}
    jobs = [job_of(save / name, text) for name, text in texts.items()]
    faults = []
    for folder in sorted({path.parent for path in save.glob(f"stage-*/{RECIPE}")} - {job.out for job in jobs}):
        if job_of(folder).has_worth():
            faults.append(f"{folder} exists, and is no stage of this recipe; remove it or choose another SAVE")
    for job in jobs:
        try:
            job.check()
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError(*faults)
    for job in jobs:
        job.out.mkdir(parents=True, exist_ok=True)
        job.write()


@dataclass(frozen=True)
class StageJob(InPlace):
    """The job of a stage, whose record is its recipe."""

    text: str = ""

    def write(self) -> None:
        """Write the recipe."""
        write_whole(self.record, self.text)

    def _difference(self, path: Path) -> str:
        return difference(_settings(whole_text(path)), _settings(self.text))


def job_of(folder: Path, text: str = "") -> StageJob:
    """Return the job of a stage's folder, and of its recipe."""
    return StageJob("deepnmt train-progressive", folder, RECIPE, option="SAVE", worth=(LAST, DONE), text=text)


def recipe_text(stage: Stage, stages: int, extra: Sequence[str], data: str) -> str:
    """Return the recipe of one stage: options of fairseq-train; data, how it grows and is scored stand in comments.

    Args:
        stage: the stage
        stages: their number
        extra: arguments of fairseq-train
        data: identity of the data
    """
    lines = [f"# Stage {stage.number} of {stages}; made by train_progressive.sh, which runs it"]
    growth = stage.growth
    if growth is not None:
        lines.append(f"# strategy: {growth.strategy}")
    own = {key: value for key, value in stage.own.items() if key != "strategy"}
    lines += [f"# {key}: {value}" for key, value in sorted(own.items())]
    lines += [f"# options: {shlex.join(extra)}"] if extra else []
    lines.append(f"# data: {data}")
    options = {key: option.value for key, option in stage.options.items()}
    return "\n".join(lines) + "\n" + yaml.safe_dump(options, sort_keys=False, allow_unicode=True, width=1000)


def _settings(text: str) -> dict[str, str]:
    """Return the values of a recipe, and of its comments, by their keys."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.removeprefix("# ").partition(": ")
        found |= {key: value} if colon else {"heading": line}
    return {f"{CONTENTS}s of data" if key == "data" else key: value for key, value in found.items()}


def grow_stage(before: Stage, stage: Stage, save: Path) -> list[str]:
    """Write the checkpoint that a stage starts from, atomically, and return a summary, a line per fact.

    Args:
        before: the finished stage
        stage: the next stage
        save: the folder of all stages

    Raises:
        UserError: the stage has ended before it began, or its checkpoint exists
    """
    source, target = save / before.name / LAST, save / stage.name / LAST
    return rewrite_file(source, target, lambda state, config: _grown(state, config, before, stage))


def _grown(
    old: CheckpointState, config: DLCLTransformerConfig, before: Stage, stage: Stage
) -> tuple[CheckpointState, list[str]]:
    assert stage.growth is not None
    state, lines = grow_state(old, config, stage.growth, stage.flag("carry-moments"), stage.flag("keep-schedule"))
    # The best score of a deeper model is its own; without one, --patience counts anew.
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


TABLE = "stages.tsv"
MODEL = ("encoder_layers", "decoder_layers", "encoder_groups", "decoder_groups")


def summary(folder: Path, checkpoint: str) -> dict[str, Any]:
    """Return the results of a stage.

    Args:
        folder: stage-N-DEPTH, with checkpoint_last.pt and valid/scores.json
        checkpoint: name of the scored checkpoint

    Returns:
        the fields of stage.json. `epochs` counts complete epochs, with a plus if another has begun; `seconds` counts
        training since the first stage began. `valid_loss` is the best validation, or `valid_` with the name of another
        metric that chooses the best checkpoint
    """
    state = CheckpointState.of(folder / LAST, numbers=False)
    try:
        scores = json.loads(whole_text(folder / "valid" / "scores.json"))
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}: no scores; run deepnmt score") from None
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
    """Write the results of a stage.

    Args:
        folder: folder of the stage
        checkpoint: name of the scored checkpoint

    Raises:
        UserError: it has not been scored
    """
    row = summary(folder, checkpoint)
    noted = (json.loads(whole_text(path)) for path in folder.parent.glob("stage-*/stage.json"))
    rows = [*sorted((r for r in noted if r["stage"] < row["stage"]), key=lambda r: int(r["stage"])), row]
    write_whole(folder.parent / TABLE, table(rows))
    write_record(folder / DONE, row)


LOG = "train.log"
# Half-written files of killed commands.
REMAINS = ("*.tmp*", "stage-*/*.tmp*")


def run(recipe: Path, data: str, save: Path, options: Sequence[str]) -> None:
    """Run all stages that are not done.

    Args:
        recipe: its file
        data: DATA, or DATA0:DATA1:...
        save: folder of all stages
        options: options of fairseq-train, in every stage

    Raises:
        UserError: options do not match, or the folder is in use, or of another recipe or other data
    """
    with contextlib.redirect_stdout(sys.stderr):
        stages = plan_stages(recipe, options)
    check_data(data, [*to_arguments(stages[0].options), *options])
    with locked(save, "SAVE"):
        prepare(stages, save, options, data)
        for stage in stages:
            print(_description(stage), file=sys.stderr)
        for path in (path for pattern in REMAINS for path in save.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for before, stage in zip([None, *stages], stages):
            if (save / stage.name / DONE).is_file():
                print(f"stage {stage.number} of {len(stages)} is done: {save / stage.name}", flush=True)
            else:
                run_stage(stage, before, data, save, options)
        rows = [line.split("\t") for line in read_text(save / TABLE)]
    print("\n".join(in_columns(rows)))
    print(f"{save} is ready")


def run_stage(stage: Stage, before: Stage | None, data: str, save: Path, options: Sequence[str]) -> None:
    """Train a stage, from the results of the stage before it, and translate and score the validation set."""
    folder = save / stage.name
    if before and not (folder / LAST).is_file():
        print(f"growing stage {before.number} into stage {stage.number}", file=sys.stderr, flush=True)
        lines = "".join(f"{line}\n" for line in grow_stage(before, stage, save))
        print(lines, end="", flush=True)
        with (folder / LOG).open("a", encoding="utf-8") as log:
            log.write(lines)
    run_step("train", folder / RECIPE, data, folder, "--tensorboard-logdir", save / "tensorboard", *options)
    checkpoint = "checkpoint_best.pt"
    if number := int(stage.own.get("average", "0")):
        # A short stage may have fewer; at least the last one is there.
        found = len([*folder.glob("checkpoint[0-9]*.pt"), *folder.glob("checkpoint_[0-9]*.pt")])
        checkpoint = "average.pt"
        run_step("average", folder, folder / checkpoint, "--last", min(number, max(found, 1)))
    elif not (folder / checkpoint).is_file():
        checkpoint = LAST
    first, search = data.split(os.pathsep)[0], stage.own.get("translate", "").split()
    run_step("generate", folder / checkpoint, first, folder / "valid", "--subset", "valid", *search)
    run_step("score", folder / "valid", first)
    note(folder, checkpoint)


def check_data(data: str, arguments: Sequence[str]) -> None:
    """Raise `UserError` if the stages cannot be trained on some data, or their translations of it not be scored."""
    first = check_named_data(data, arguments)[0]
    languages = TextSettings.read(first).languages
    pairs = check_subset(first, "valid", languages, check_dictionaries(first, languages))
    if pairs is not None:
        check_texts(first, "valid", [f"tok.{language}" for language in languages], pairs)


def _description(stage: Stage) -> str:
    config, ends = stage.config, [f"{key} {stage.end(key)}" for key in ENDS if stage.end(key) > 0]
    grown = f" by {stage.growth.strategy}" if stage.growth else ""
    return (
        f"stage {stage.number}: {config.encoder_layers} encoder layers{grown}, groups {config.encoder_groups}, "
        f"{config.decoder_layers} decoder layers, groups {config.decoder_groups}, to {', '.join(ends)}"
    )
