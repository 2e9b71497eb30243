"""Run the stages of a recipe one after the other, from the first that is not done."""

import contextlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from deepnmt.jobs.child_steps import run_step
from deepnmt.jobs.job import locked
from deepnmt.progressive.folders import DONE, LAST, RECIPE, prepare
from deepnmt.progressive.notes import TABLE, note
from deepnmt.progressive.plan import plan_stages
from deepnmt.progressive.stages import ENDS, Stage
from deepnmt.progressive.steps import grow_stage
from deepnmt.recipe import to_arguments
from deepnmt.text.columns import in_columns
from deepnmt.text.data_folder import check_dictionaries, check_subset, check_texts
from deepnmt.text.lines import whole_text
from deepnmt.text.settings import TextSettings
from deepnmt.text.training_data import check_named_data

LOG = "train.log"
# What killed commands leave half-written.
REMAINS = ("*.tmp*", "stage-*/*.tmp*")


def run(recipe: Path, data: str, save: Path, options: Sequence[str]) -> None:
    """Run all stages that are not done.

    Args:
        recipe: its file
        data: DATA, or DATA0:DATA1:...
        save: folder of all stages
        options: of fairseq-train, in every stage

    Raises:
        UserError: something does not fit, or the folder is in use, or of another recipe or other data
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
        rows = [line.split("\t") for line in whole_text(save / TABLE).splitlines()]
    print("\n".join(in_columns(rows)))
    print(f"{save} is ready")


def run_stage(stage: Stage, before: Stage | None, data: str, save: Path, options: Sequence[str]) -> None:
    """Train a stage, from what the stage before it has left, and translate and score the validation set."""
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
