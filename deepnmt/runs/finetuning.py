"""Train a model further: the recipe of its training, and the process of the new one.

python -m deepnmt.runs.finetuning CHECKPOINT DATA SAVE OLD|'' [options of fairseq-train]
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# Before the rest of fairseq.
from deepnmt.runs import training

# isort: split
from deepnmt import console
from deepnmt.checkpoints.averaging import LAST
from deepnmt.checkpoints.data_fit import trained_settings
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.jobs.in_place import InPlace
from deepnmt.jobs.job import locked
from deepnmt.recipe.combinations import TWO_SIDED
from deepnmt.recipe.parser import parse, training_parser
from deepnmt.text.data_folder import check_data_folder, subset_prefix
from deepnmt.text.like_folder import check_like, check_same_subwords
from deepnmt.text.record import sha256
from deepnmt.text.settings import RECORD as DATA_RECORD

RECIPE, START = "recipe.yaml", "finetune.json"
VALID, OLD = "valid", "old"
FUSED, SMOOTHED = "label_smoothed_cross_entropy_fused", "label_smoothed_cross_entropy"
# Files of initial embeddings; the checkpoint has the embeddings trained from them. And layers that its training froze.
REPLACED = ("encoder_embed_path", "decoder_embed_path", "encoder_freeze", "decoder_freeze")
# Small batches, at a small rate that stays.
TRAINING = {
    "optimizer": "adam",
    "adam-betas": "(0.9, 0.98)",
    "lr-scheduler": "fixed",
    "lr": "0.0001",
    "max-tokens": "1024",
    "max-epoch": "5",
    "seed": "1",
    "num-workers": "0",
    "log-format": "simple",
    "log-interval": "50",
}


def model_options(architecture: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the options of a recipe that give a model of this architecture its sizes and rules, from a checkpoint's.

    In fairseq's own models these are among the options of the whole training.
    """
    parser = training_parser()
    parse(parser, [f"--arch={architecture}"])
    groups = [group for group in parser._action_groups if group.title == "Model-specific configuration"]
    for action in (action for group in groups for action in group._group_actions):
        value = options.get(action.dest)
        name = next((each[2:] for each in action.option_strings if each.startswith("--")), None)
        if name is None or value is None or value == "" or action.dest in REPLACED:
            continue
        if action.nargs == 0:
            if value == action.const:
                # The flag of an option that is true by default makes it false.
                yield name, str(value).lower()
        else:
            yield name, str(value)


def job_of(save: Path, checkpoint: Path) -> InPlace:
    """Return the job of training a checkpoint further; fairseq would resume the training of another one, too."""
    start = os.path.realpath(checkpoint)
    called = {"sha256": "another CHECKPOINT"}
    more: dict[str, Any] = {"told": {"checkpoint": start}, "called": called, "worth": (LAST,)}
    return InPlace(console.program("finetune"), save, START, {"sha256": sha256(checkpoint)}, "SAVE", **more)


def check_start(job: InPlace) -> None:
    """Raise `UserError` if the training in a folder did not begin with the checkpoint.

    An earlier version has only its checkpoints say that there was one.
    """
    job.check()
    if job.record.exists() or not job.has_worth():
        return
    last = job.out / LAST
    if not CheckpointState.of(last, numbers=False).options("checkpoint").get("finetune_from_model"):
        raise UserError(
            f"{job.out} exists, and was not made by {job.program}: {last} is of a training that began with no "
            "checkpoint; remove it or choose another SAVE"
        )


def write_recipe(checkpoint: Path, data: Path, path: Path) -> None:
    """Write the recipe of a checkpoint's training.

    Raises:
        UserError: the checkpoint or DATA is faulty, they do not match, or the recipe's folder has a training that did
            not begin with the checkpoint
    """
    job = job_of(path.parent, checkpoint)
    check_start(job)
    check_data_folder(data, ["train", VALID])
    settings = trained_settings([checkpoint], data)
    state = CheckpointState.of(checkpoint, numbers=False)
    model, criterion = state.options("model"), state.options("criterion")
    architecture = str(model.get("_name") or model.get("arch"))
    options = {"task": "deep_translation", "arch": architecture}
    options |= {"source-lang": settings.source_lang, "target-lang": settings.target_lang}
    if state.task_state().get("right_to_left"):
        options["right-to-left"] = "true"
    options |= dict(model_options(architecture, model))
    smoothed = str(criterion.get("_name")).startswith(SMOOTHED)
    options |= {"criterion": FUSED if smoothed else "cross_entropy"}
    if smoothed:
        options["label-smoothing"] = str(criterion.get("label_smoothing", 0))
    if criterion.get("_name") == TWO_SIDED:
        options |= {"criterion": TWO_SIDED, "two-sided-weight": str(criterion.get("two_sided_weight", 0.5))}
    text = "".join(f"{key}: {json.dumps(value)}\n" for key, value in (options | TRAINING).items())
    console.write_whole(path, f"# {checkpoint.name}, to be trained further\n{text}")
    if not job.has_worth():
        job.write()


def link_data(data: Path, old: Path, folder: Path) -> None:
    """Make a folder of links to DATA, and to OLD's validation set as the subset `old`.

    Raises:
        UserError: one is faulty, or OLD has other subwords
    """
    languages = check_like(data).languages
    check_like(old)
    check_same_subwords(old, data, f"deepnmt binarise --like {data}")
    check_data_folder(old, [VALID], languages)
    prefix = subset_prefix(old, VALID, languages)
    links = {path.name: path for path in data.iterdir() if path.name != DATA_RECORD}
    for language in languages:
        for ending in ("bin", "idx"):
            links[f"{OLD}.{'-'.join(languages)}.{language}.{ending}"] = Path(f"{prefix}.{language}.{ending}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, target in links.items():
        (folder / name).symlink_to(target.resolve())
    shutil.copyfile(data / DATA_RECORD, folder / DATA_RECORD)


def begin(checkpoint: Path, data: Path, save: Path, old: Path | None, options: Sequence[str]) -> None:
    """Begin or resume a training of a model on data, as `training.begin` does; `old` has another validation set.

    Raises:
        UserError: options do not match, or the folder is in use or of another training
    """
    # Before the recipe is written, and as long as this process lives.
    save.mkdir(parents=True, exist_ok=True)
    training.HELD.enter_context(locked(save, "SAVE"))
    write_recipe(checkpoint, data, save / RECIPE)
    if old:
        link_data(data, old, save / "data")
        data, options = save / "data", ["--valid-subset", f"{VALID},{OLD}", *options]
    # fairseq starts from it where there is no checkpoint yet.
    training.begin(save / RECIPE, str(data), save, ["--finetune-from-model", str(checkpoint), *options])


def main() -> None:
    """Begin the training that the command line names."""
    checkpoint, data, save, old, *options = sys.argv[1:]
    begin(Path(checkpoint), Path(data), Path(save), Path(old) if old else None, options)


if __name__ == "__main__":
    training.become_fairseq_train(main)
