"""Whether a checkpoint is one of the training that is to resume from it: fairseq looks at the model's tensors alone."""

import math
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Optional

from fairseq.utils import split_paths
from torch import Tensor

from deepnmt.checkpoints.state import CheckpointState
from deepnmt.checkpoints.trained_model import EMBEDDINGS, parameter_shapes, tensor_faults
from deepnmt.errors import UserError, in_place_of
from deepnmt.fairseq_patches.checks.data_checks import task_languages
from deepnmt.fairseq_patches.checks.subwords_of_tasks import check_task
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.translation_task import RIGHT_TO_LEFT

# Adam's state of each parameter, in its shape.
MOMENTS = ("exp_avg", "exp_avg_sq")


def check_resumable(state: CheckpointState, trainer: Any, reset_optimizer: bool) -> None:
    """Refuse a checkpoint of another training.

    Raises:
        UserError: names the difference
    """
    if not reset_optimizer:
        _check_training(state, trainer)
    elif state.task_state().get(RIGHT_TO_LEFT) and not getattr(trainer.task, RIGHT_TO_LEFT, False):
        # The other way round it is an option that somebody has given.
        raise UserError(f"{state.name}: the model is of --right-to-left, which must be given, too, but is not")
    model = trainer.get_model()
    if isinstance(model, DLCLTransformerModel):
        expected = parameter_shapes(model)
        tables = [name for name in EMBEDDINGS.values() if name in state.tensors() and state.tensors()[name].dim()]
        if any(len(state.tensors()[name]) != expected[name][0] for name in tables):
            return  # the dictionaries, which `name_misfitting_dictionary` speaks of
        if faults := list(tensor_faults(state.tensors(), expected, "as in the model of this training")):
            then, now = state.options(), vars(model.cfg.deep)
            other = [f"{key} {then[key]}, here {now[key]}" for key in now if then.get(key, now[key]) != now[key]]
            differ = f"; options that differ: {'; '.join(other)}" if other else ""
            raise UserError(*(f"{state.name}: {fault}{differ}" for fault in faults[:1]))
    check_task(state, trainer.task)
    if not reset_optimizer and (fault := next(_moment_faults(state, trainer), None)):
        raise UserError(f"{state.name}: last_optimizer_state.{fault}; give --reset-optimizer")


def _check_training(state: CheckpointState, trainer: Any) -> None:
    criterion = type(trainer.get_criterion()).__name__
    if state.optimizer() is not None and state.criterion() not in ("", criterion):
        raise in_place_of(
            AssertionError,
            f"{state.name}: optimizer_history[-1].criterion_name must be {criterion}, the --criterion of this "
            f"training, but is {state.criterion()}; give --reset-optimizer or another --save-dir",
        )
    then, now = _languages(Namespace(**state.options("task"))), _languages(getattr(trainer.task, "cfg", None))
    if then and now and then != now:
        raise UserError(
            f"{state.name}: must translate {' to '.join(now)}, as this training does, but translates "
            f"{' to '.join(then)}; give --reset-optimizer or another --save-dir"
        )
    theirs, ours = bool(state.options("task").get(RIGHT_TO_LEFT)), getattr(trainer.task, RIGHT_TO_LEFT, False)
    if theirs != ours:
        raise UserError(
            f"{state.name}: cfg.task.{RIGHT_TO_LEFT} must be {ours}, as in this training, but is {theirs}; give "
            "another --save-dir"
        )


def _languages(task: Any) -> Optional[tuple[str, str]]:
    """Return the source's and the target's language; None if unknown.

    If the command line did not name them, they come from the data folder, and the checkpoint does not have them.

    Args:
        task: the options of a task
    """
    source, target, data = (getattr(task, name, None) for name in ("source_lang", "target_lang", "data"))
    if isinstance(source, str) and isinstance(target, str):
        return source, target
    if isinstance(data, str) and data and source is None and target is None:
        folder = Path(split_paths(data)[0])
        with suppress(UserError, OSError, ValueError):
            if folder.is_dir():
                return task_languages(Namespace(source_lang=None, target_lang=None), folder)
    return None


def _moment_faults(state: CheckpointState, trainer: Any) -> Iterator[str]:
    """Yield Adam's tensors of another shape than the parameter's, for which it would read beyond the memory.

    fairseq numbers the parameters in the model's order, with the criterion's after them. Half precision with flat
    gradients has a single parameter instead, all of them end to end.
    """
    optimizer = state.optimizer() or {}
    groups = optimizer.get("param_groups") or []
    if len(groups) != 1:
        return
    criterion = trainer.get_criterion()
    parameters = chain(trainer.get_model().parameters(), () if criterion is None else criterion.parameters())
    shapes: list[tuple[int, ...]] = [tuple(parameter.shape) for parameter in parameters if parameter.requires_grad]
    numbers = groups[0]["params"]
    if len(numbers) == 1:
        shapes = [(sum(map(math.prod, shapes)),)] if len(shapes) > 1 else shapes
    if len(numbers) != len(shapes):
        return  # which torch refuses
    is_adam = getattr(trainer.cfg.optimizer, "_name", None) == "adam"
    for number, shape in zip(numbers, shapes):
        kept = optimizer.get("state", {}).get(number, {}) if isinstance(number, int) else {}
        needed = [*MOMENTS, *(() if "step" in groups[0] else ("step",))] if kept and is_adam else []
        for key in needed:
            if not isinstance(kept.get(key), (Tensor, int, float)):
                yield f"state[{number}].{key} must be there, but is not"
        for key in MOMENTS:
            moment = kept.get(key)
            if key in kept and not (isinstance(moment, Tensor) and tuple(moment.shape) == shape):
                held = tuple(moment.shape) if isinstance(moment, Tensor) else "no tensor"
                yield f"state[{number}].{key} must have the shape {shape} of its parameter, but is {held}"
