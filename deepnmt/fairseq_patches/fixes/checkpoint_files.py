"""Checkpoints on the disk: written atomically, and named if they cannot be read or do not match."""

import logging
import os
import shutil
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.models import ARCH_MODEL_REGISTRY, BaseFairseqModel, FairseqLanguageModel
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer
from fairseq.utils import split_paths
from omegaconf import OmegaConf
from torch import Tensor

from deepnmt.checkpoints.contents import check_numbers
from deepnmt.checkpoints.data_fit import check_fusion
from deepnmt.checkpoints.packed import unpacked
from deepnmt.checkpoints.safetensors_file import ENDING
from deepnmt.checkpoints.state import SCALES, CheckpointState
from deepnmt.checkpoints.trained_model import architecture, check_model, is_deep
from deepnmt.console import is_command
from deepnmt.errors import UserError, in_place_of, user_message
from deepnmt.fairseq_patches.checks.resumable import check_resumable
from deepnmt.fairseq_patches.checks.subwords_of_tasks import check_task
from deepnmt.fairseq_patches.patch import replaces
from deepnmt.search.fusion import dictionary_folder
from deepnmt.text.data_folder import one_name
from deepnmt.text.inline_targets import STATE as INLINE
from deepnmt.text.record import selected_on
from deepnmt.translation_task import RIGHT_TO_LEFT, DeepTranslationTask

logger = logging.getLogger(__name__)


@replaces(PathManager, "copy", order=10, why="a killed copy leaves a broken checkpoint_last.pt")
def copy_whole_file(stock: Any, src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Copy to a temporary name, then rename."""
    if PathManager.path_requires_pathmanager(dst_path):
        return bool(stock(src_path, dst_path, overwrite))
    temporary = f"{dst_path}.tmp"
    try:
        shutil.copyfile(src_path, temporary)
        os.replace(temporary, dst_path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return True


@replaces(checkpoint_utils, "_torch_persistent_save", order=10, why="a full disk gives a line, not a logged traceback")
def save_without_log(stock: Any, obj: Any, f: Any) -> None:
    """Write, and leave the report of a failure to the raised error."""
    log = checkpoint_utils.logger
    before, log.disabled = log.disabled, True
    try:
        stock(obj, f)
    finally:
        log.disabled = before


@replaces(
    checkpoint_utils, "load_checkpoint_to_cpu", order=10, why="name a damaged or unsafe checkpoint, and the faulty key"
)
def load_a_sound_checkpoint(stock: Any, path: str, *args: Any, **kwargs: Any) -> Any:
    """Read a checkpoint once it has been looked at.

    Raises:
        UserError: it cannot be read, or is not as it must be
    """
    state = None
    if not PathManager.path_requires_pathmanager(path):
        state = CheckpointState.of(Path(path), numbers=False)
        _check(state)
    with naming(path):
        if state is not None and path.endswith(ENDING):
            contents = _configured(dict(state.contents), *args, **kwargs)
        else:
            contents = stock(path, *args, **kwargs)
    if SCALES in contents:
        contents["model"] = unpacked(contents["model"], contents.pop(SCALES))
    # A task that asks for the kind of its model must also learn of models without an entry.
    contents.setdefault("task_state", {})
    if _averaging and isinstance(contents.get("extra_state"), dict):
        # fairseq means to begin with the model, which it has thrown away by then.
        contents["extra_state"].setdefault("ema", contents["model"])
    return contents


def _configured(contents: dict[str, Any], arg_overrides: Any = None, load_on_all_ranks: bool = False) -> dict[str, Any]:
    """Return the contents of a file as fairseq's function does, which knows torch's format alone."""
    if contents.get("args") is not None:
        vars(contents["args"]).update(arg_overrides or {})
    if contents.get("cfg") is not None:
        contents["cfg"] = OmegaConf.create(contents["cfg"], flags={"allow_objects": True})
        checkpoint_utils.overwrite_args_by_name(contents["cfg"], arg_overrides or {})
    found: dict[str, Any] = checkpoint_utils._upgrade_state_dict(contents)
    return found


def _check(state: CheckpointState) -> None:
    """Check a checkpoint; numbers that are not finite are refused in this package's models, and said of others."""
    check_model(state)
    try:
        check_numbers(state.tensors(), state.name)
    except UserError as error:
        if is_deep(state):
            raise
        logger.warning(str(error))


@replaces(FairseqTask, "load_state_dict", order=10, why="refuse a right-to-left model that no task would turn back")
def refuse_reversed_translations(stock: Any, self: Any, state_dict: dict[str, Any]) -> None:
    """Load the state of a task. Raises `UserError` if it belongs to a model that only `deep_translation` knows."""
    if state_dict.get(RIGHT_TO_LEFT) and not isinstance(self, DeepTranslationTask):
        raise UserError("--task: must be deep_translation for a checkpoint that was trained with --right-to-left")
    stock(self, state_dict)


@replaces(checkpoint_utils, "load_model_ensemble", order=10, why="a language model may have its own dictionary")
def load_with_own_dictionary(stock: Any, filenames: Any, arg_overrides: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Load an ensemble. Raises `UserError` if it is a language model without a dictionary, or of other subwords."""
    data = (arg_overrides or {}).get("data")
    if data is None or any(args) or kwargs.get("task") is not None or not _is_language_model(filenames[0]):
        return stock(filenames, arg_overrides, *args, **kwargs)
    check_fusion(Path(filenames[0]), Path(split_paths(data)[0]))
    with one_name(Path(dictionary_folder(filenames[0], data))) as folder:
        return stock(filenames, {**arg_overrides, "data": str(folder)}, *args, **kwargs)


def _is_language_model(path: str) -> bool:
    """Return whether a file is the checkpoint of a language model."""
    if PathManager.path_requires_pathmanager(path) or not Path(path).is_file():
        return False
    kind = ARCH_MODEL_REGISTRY.get(architecture(CheckpointState.of(Path(path), numbers=False)))
    return kind is not None and issubclass(kind, FairseqLanguageModel)


@replaces(checkpoint_utils, "load_model_ensemble_and_task", order=10, why="name checkpoints without a model")
def load_models_or_say_why_not(stock: Any, filenames: Any, *args: Any, **kwargs: Any) -> Any:
    """Load an ensemble.

    Raises:
        UserError: a file is missing, no model can be made of one, or it is a language model where one translates
    """
    with naming(", ".join(filenames)):
        loaded = stock(filenames, *args, **kwargs)
    models, _, task = loaded
    for path, model in zip(filenames, models):
        if isinstance(task, TranslationTask) and isinstance(model, FairseqLanguageModel):
            raise UserError(f"{path}: cfg.model._name must be a model that translates, but is a language model's")
        if Path(path).is_file():
            state = CheckpointState.of(Path(path), numbers=False)
            check_task(state, task)
            if isinstance(task, TranslationTask):
                _warn_of_other_languages(state, task.cfg)
    return loaded


def _warn_of_other_languages(state: CheckpointState, task: Any) -> None:
    """Say that a model translates something else: with a joint dictionary it fits, and only its output is wrong."""
    trained = Namespace(**state.options("task"))
    then, now = ([getattr(cfg, f"{side}_lang", None) for side in ("source", "target")] for cfg in (trained, task))
    if all((*then, *now)) and then != now:
        logger.warning("%s: was trained from %s to %s, but is used from %s to %s", state.name, *then, *now)


@replaces(Trainer, "load_checkpoint", order=10, why="name a checkpoint of another model or criterion, and differences")
def resume_what_fits(
    stock: Any, self: Any, filename: str, reset_optimizer: bool = False, *args: Any, **kwargs: Any
) -> Any:
    """Resume a training, or begin with another one's model; its checkpoints also record that model's selection text.

    Raises:
        UserError: the checkpoint is missing, or not one of this training
    """
    if PathManager.isfile(filename):
        if not PathManager.path_requires_pathmanager(filename) and self.data_parallel_rank == 0:
            state = CheckpointState.of(Path(filename), numbers=False)
            check_resumable(state, self, reset_optimizer)
            if self.task.state is not None:
                # Of whatever a model was trained on before, it knows the pairs.
                known = selected_on([self.task.state_dict(), state.task_state()])
                known |= {name: value for name, value in state.task_state().items() if name == INLINE}
                self.task.state.merge_state_dict(known)
    elif self.cfg.checkpoint.restore_file != "checkpoint_last.pt" and is_command():
        # fairseq would begin anew, and say so in a line of the log.
        raise UserError(f"--restore-file: checkpoint {filename} not found")
    elif os.path.lexists(filename):
        raise UserError(f"{filename}: must be a checkpoint, but is no file")
    with naming(filename), averaging(self.cfg.ema.store_ema):
        return stock(self, filename, reset_optimizer, *args, **kwargs)


# Whether the loaded checkpoint is for a training with --store-ema.
_averaging = False


@contextmanager
def averaging(wanted: bool) -> Iterator[None]:
    """Let checkpoints without a moving average begin with their model for one."""
    global _averaging
    _averaging = wanted
    try:
        yield
    finally:
        _averaging = False


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Name a checkpoint in whatever goes wrong while fairseq loads it."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        if user_message(error) is not None:
            raise
        if isinstance(error, OSError) and str(error).startswith("Model file not found: "):
            missing = str(error).split(": ", 1)[1] or "''"
            raise in_place_of(type(error), f"{missing}: no such checkpoint") from error
        reason = next(iter(str(error).splitlines()), "")
        kind = "" if type(error) is Exception else f"{type(error).__name__}: "
        raise in_place_of(
            type(error), f"{path}: must be a checkpoint that can be used here, but is not: {kind}{reason}"
        ) from error


@replaces(BaseFairseqModel, "load_state_dict", order=10, why="name the dictionary that does not match")
def name_misfitting_dictionary(stock: Any, self: Any, state_dict: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
    """Load, or say which embedding table has another number of types.

    Raises:
        UserError: one has
    """
    own = self.state_dict()
    for name, tensor in state_dict.items():
        if name.endswith("embed_tokens.weight") and name in own and tensor.dim() and len(own[name]) != len(tensor):
            raise in_place_of(
                RuntimeError,
                f"dictionary must have the {len(tensor)} types of the checkpoint's {name}, "
                f"but has {len(own[name])}; give the data folder that the model was trained on",
            )
    return stock(self, state_dict, *args, **kwargs)
