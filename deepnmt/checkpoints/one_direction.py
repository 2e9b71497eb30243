"""One of the two models in a checkpoint of a `dlcl_dual`, as a checkpoint of its own."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig

from deepnmt.checkpoints.state import BEST, PATIENCE, CheckpointState, Tensors
from deepnmt.errors import UserError
from deepnmt.model.dual import BWD, STARTS, exchanged_options
from deepnmt.model.transformer import NAME
from deepnmt.options.dual_rules import ARCH, OF_TASK, UNSPLIT
from deepnmt.text.subword_identity import SOURCE, TARGET

LANGUAGES = ("source_lang", "target_lang")
SMOOTHED = "label_smoothed_cross_entropy_fused"


def has_both(state: CheckpointState) -> bool:
    """Return whether a checkpoint holds models of both directions."""
    return not state.is_old() and state.options().get("_name") == ARCH


def check_one_direction(state: CheckpointState) -> None:
    """Raise `UserError` if a checkpoint holds models of both directions."""
    if has_both(state):
        raise UserError(f"{state.name}: {UNSPLIT}")


def of_direction(state: CheckpointState, direction: str) -> CheckpointState:
    """Return one model of a checkpoint with both, as if it had been trained alone; without an optimizer's state.

    Raises:
        UserError: the checkpoint does not hold models of both directions
    """
    if not has_both(state):
        raise UserError(f"{state.name}: cfg.model._name must be {ARCH}, but is {state.options().get('_name')}")
    model = {name: value for name, value in state.options().items() if name not in STARTS} | {"_name": NAME}
    task = {name: value for name, value in state.options("task").items() if name not in OF_TASK}
    task["_name"] = "deep_translation"
    known = {each.name for each in dataclasses.fields(LabelSmoothedCrossEntropyCriterionConfig)}
    criterion = {name: value for name, value in (state.contents["cfg"].get("criterion") or {}).items() if name in known}
    record = state.trained_on()
    if direction == BWD:
        model = exchanged_options(model)
        task |= dict(zip(LANGUAGES, (task.get(name) for name in reversed(LANGUAGES))))
        record = turned_record(record)

    def part(tensors: Tensors) -> Tensors:
        return {name[len(direction) + 1 :]: each for name, each in tensors.items() if name.startswith(f"{direction}.")}

    found = state.with_groups(model=model, task=task, criterion={**criterion, "_name": SMOOTHED}).with_models(part)
    found = found.without(PATIENCE, BEST).without_optimizer()
    found = found if record is None else found.with_trained_on(record)
    # A direction's checkpoints can be averaged with each other alone.
    first, *rest = (state.training() or "").split() or [""]
    return found.of_training(" ".join([f"{first}.{direction}", *rest]) if first else None)


def turned_record(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the record of subwords of a training in the other direction."""
    if record is None:
        return None
    other = {SOURCE: TARGET, TARGET: SOURCE}
    return {**record, "dictionaries": {other[side]: known for side, known in record["dictionaries"].items()}}
