"""Export checkpoints as a model folder, which appears when it is complete and has passed its check."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deepnmt.checkpoints.data_fit import check_checkpoint
from deepnmt.errors import UserError
from deepnmt.export.parity import Result, compare, read_pairs
from deepnmt.text.data_folder import check_dictionaries
from deepnmt.text.pipeline import CODES, TextPipeline
from deepnmt.translator.engine import Engine, SearchSettings, engine_module, load_engine
from deepnmt.translator.model_folder import ModelFolder, is_model_folder

EXPORTERS = {
    "torch": "deepnmt.export.torch_model",
    "ctranslate2": "deepnmt.export.ctranslate2_model",
    "onnx": "deepnmt.export.onnx_model",
}


@dataclass(frozen=True)
class Export:
    """What to export, and how.

    Attributes:
        checkpoints: fairseq's, one or an ensemble
        data: the folder, made by preprocess.sh, that they were trained on
        engine: its name
        weights: type of the numbers
        check: how many validation pairs to compare; 0: no check
        allow_loss: export reduced weights also where BLEU is lost
        search: defaults of the search
    """

    checkpoints: Sequence[Path]
    data: Path
    engine: str = "torch"
    weights: str = "float32"
    check: int = 200
    allow_loss: bool = False
    search: SearchSettings = dataclasses.field(default_factory=SearchSettings)


def export(task: Export, target: Path) -> Result | None:
    """Write a model folder, and return what its check found; None without a check.

    A model folder that is there already is replaced when the new one is complete.

    Args:
        task: what to export
        target: the folder

    Raises:
        UserError: something is missing or faulty, the engine cannot express the model, or the check fails
    """
    _check_target(target)
    pipeline = TextPipeline.read(task.data)
    languages = pipeline.settings.languages
    check_dictionaries(task.data, languages)
    for path in task.checkpoints:
        check_checkpoint(path, task.data)
    temporary = target.with_name(f"{target.name}.tmp.{os.getpid()}")
    temporary.mkdir()
    try:
        engine_module(task.engine, EXPORTERS).write(list(task.checkpoints), task.data, temporary, task.weights)
        for name in (CODES, *(f"dict.{language}.txt" for language in languages)):
            shutil.copyfile(task.data / name, temporary / name)
        folder = ModelFolder(temporary, pipeline.settings, task.engine, task.weights, search=task.search)
        engine = load_engine(folder)
        folder = dataclasses.replace(folder, longest=engine.longest)
        result = _checked(task, engine, pipeline) if task.check else None
        dataclasses.replace(folder, check=result.as_record() if result else {}).write()
        _replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return result


def _checked(task: Export, engine: Engine, pipeline: TextPipeline) -> Result:
    """Return what the check found. Raises `UserError` if the model does not pass."""
    from deepnmt.translator.torch_engine import load_checkpoints

    languages = pipeline.settings.languages
    reference = load_checkpoints(task.checkpoints, task.data, languages, device="cpu")
    pairs = read_pairs(task.data, languages, task.check, min(engine.longest, reference.longest))
    result = compare(reference, engine, pairs, pipeline, task.search)
    if faults := list(result.faults(task.weights == "float32", task.allow_loss)):
        raise UserError(*(f"--engine {task.engine} --weights {task.weights}: {fault}" for fault in faults))
    return result


def _check_target(target: Path) -> None:
    if not target.parent.is_dir():
        raise UserError(f"{target.parent}: the folder of the new model must exist, but does not")
    if not os.path.lexists(target) or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir() or not is_model_folder(target):
        raise UserError(f"{target}: must be a model folder or not exist, but is something else")


def _replace(new: Path, target: Path) -> None:
    """Put a folder in the place of another, which stays until the new one is there."""
    old = target.with_name(f"{target.name}.old.{os.getpid()}")
    if os.path.lexists(target):
        os.replace(target, old)
    os.replace(new, target)
    shutil.rmtree(old, ignore_errors=True)
