"""A checkpoint whose model gets another depth: what changes in it beside the tensors; the rest goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from torch import Tensor

from deepnmt.checkpoints.file import schedule_name, with_options
from deepnmt.checkpoints.state import PATIENCE
from deepnmt.errors import UserError
from deepnmt.lr_schedulers.inverse_sqrt_reset import with_reset

RESETTABLE = "inverse_sqrt_reset"
NO_OPTIMIZER = "optimizer: none in the checkpoint; a training from it counts its updates from 0"
Rewrite = Callable[[Mapping[str, Tensor]], dict[str, Tensor]]


def with_model(
    state: Mapping[str, Any], options: Mapping[str, Any], rewrite: Rewrite
) -> tuple[dict[str, Any], list[str]]:
    """The checkpoint with another model, and what was done beside that, a line a fact.

    Args:
        state: the contents of a checkpoint of fairseq's; they stay as they are
        options: those of the model that change
        rewrite: the tensors of the new model from those of the old one
    """
    result = with_options(state, options)
    result["model"] = rewrite(state["model"])
    extra = state.get("extra_state") or {}
    # With --store-ema, fairseq keeps another copy or two of the model here.
    averages = {key: rewrite(extra[key]) for key in ("ema", "ema_fp32_params") if key in extra}
    result["extra_state"] = {**extra, **averages}
    # A training that has run out of patience would end at once.
    result["extra_state"].pop(PATIENCE, None)
    return result, ["moving average of the model: as the model"] if averages else []


def reset_schedule(state: dict[str, Any], keep: bool) -> str:
    """Let the learning rate of a checkpoint start from its peak, where that is possible, and say what was done.

    Args:
        state: the contents of a checkpoint, whose schedule is replaced
        keep: leave it as it is

    Raises:
        UserError: the checkpoint does not say at which update it was saved
    """
    if keep:
        return "learning rate: goes on as before"
    if (schedule := schedule_name(state)) != RESETTABLE:
        return f"learning rate: goes on as before, since {schedule} has no reset; {RESETTABLE} has"
    try:
        *earlier, last = state["optimizer_history"]
        updates = int(last["num_updates"])
        last = {**last, "lr_scheduler_state": with_reset(last["lr_scheduler_state"], updates)}
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            "the checkpoint must say at which update it was saved (optimizer_history), but does not"
        ) from error
    state["optimizer_history"] = [*earlier, last]
    return f"learning rate: back to its peak at update {updates}"
