"""The contents of a fairseq checkpoint, by meaning. This module alone knows fairseq's own keys.

Nothing here imports fairseq, so that commands without it can use it too.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from deepnmt.checkpoints.contents import kind
from deepnmt.checkpoints.file import read
from deepnmt.errors import UserError

# The key of --patience in `extra_state`, since fairseq does not store it.
PATIENCE = "patience"
BEST = "best"
# Likewise: the metric of that best score.
BEST_BY = "best_by"
# Likewise: the identity of dictionaries, codes and text settings, and of the training.
TRAINED_ON, TRAINING = "trained_on", "training"
# Likewise: processor time of the training.
PROCESSOR_SECONDS = "processor_seconds"
# With --store-ema, fairseq stores one or two further copies of the model under these keys.
AVERAGES = ("ema", "ema_fp32_params")
# Place of an exported model's scales, beside "model": as tensors of the model they would be surplus.
SCALES = "row_scales"
Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class CheckpointState:
    """The contents of a checkpoint, which stay unchanged; a `with_...` returns a changed copy.

    Attributes:
        contents: the dictionary written by fairseq
        name: of the file, for messages
    """

    contents: Mapping[str, Any]
    name: str = "the checkpoint"

    @classmethod
    def of(cls, path: Path, numbers: bool = True) -> CheckpointState:
        """Return the state in a file; see `deepnmt.checkpoints.file.read`."""
        return cls(read(path, numbers), str(path))

    # Accessors.

    def tensors(self) -> Tensors:
        """Return the model's tensors by their names, in the model's order."""
        tensors: Tensors = self.contents["model"]
        return tensors

    def criterion_tensors(self) -> Tensors:
        """Return the tensors of a criterion with parameters of its own; most criteria lack them."""
        return self.contents.get("criterion") or {}

    def options(self, group: str = "model") -> dict[str, Any]:
        """Return the options of the model, or of another group, such as "task". Raises `UserError` without such."""
        if self.is_old():
            return dict(vars(self.contents["args"]))
        cfg = self.contents.get("cfg")
        options = cfg.get(group) if isinstance(cfg, Mapping) else None
        if isinstance(options, Namespace):
            options = vars(options)
        if not isinstance(options, Mapping):
            raise UserError(f"{self.name}: cfg.{group} must be the options of the {group}, but is {kind(options)}")
        return dict(options)

    def task_state(self) -> Mapping[str, Any]:
        """Return the task's state."""
        state = self.contents.get("task_state")
        return state if isinstance(state, Mapping) else {}

    def is_old(self) -> bool:
        """Return whether the options are in one group, as in fairseq before 0.10."""
        return isinstance(self.contents.get("args"), Namespace)

    def schedule(self) -> str:
        """Return the name of the learning-rate schedule; "None" where the checkpoint does not say."""
        options = self.options("lr_scheduler") if self.contents["cfg"].get("lr_scheduler") else {}
        return str(options.get("_name") or options.get("lr_scheduler"))

    def updates(self) -> int:
        """Return the number of updates done. Raises `UserError` if the checkpoint does not say."""
        return int(self._last("num_updates", "the number of updates done"))

    def schedule_state(self) -> dict[str, Any]:
        """Return the state of the learning-rate schedule. Raises `UserError` if the checkpoint does not say."""
        return dict(self._last("lr_scheduler_state", "the schedule's state"))

    def criterion(self) -> str:
        """Return the name of the criterion's class; empty where the checkpoint does not say."""
        return str(self._history().get("criterion_name") or "")

    def optimizer(self) -> Mapping[str, Any] | None:
        """Return the optimizer's state; None where it was left out."""
        return self.contents.get("last_optimizer_state")

    def epoch(self) -> int:
        """Return the current or the next epoch, from 1."""
        return int(self._position("epoch"))

    def amid_epoch(self) -> bool:
        """Return whether a part of that epoch is complete."""
        return bool(self._position("iterations_in_epoch"))

    def epochs_begun(self) -> int:
        """Return the number of epochs of training, the current one included."""
        return self.epoch() - (not self.amid_epoch())

    def seconds(self) -> float:
        """Return how long it was trained. Raises `UserError` if the checkpoint does not say."""
        seconds = self._extra().get("previous_training_time")
        if seconds is None:
            raise self._missing("extra_state.previous_training_time", "the seconds of training")
        return float(seconds)

    def processor_seconds(self) -> float:
        """Return the processor seconds of the training; NaN in a checkpoint of an earlier version or of fairseq."""
        return float(self._extra().get(PROCESSOR_SECONDS, math.nan))

    def extra(self, key: str) -> Any:
        """Return a value that the training stores beside its model under a name, or None."""
        return self._extra().get(key)

    def best(self) -> Any:
        """Return the best score on the validation set, or None."""
        return self._extra().get(BEST)

    def has_best(self) -> bool:
        """Return whether there is a best score on the validation set."""
        return BEST in self._extra()

    def trained_on(self) -> Mapping[str, Any] | None:
        """Return the record of `SubwordIdentity`; None in a checkpoint of an earlier version or of fairseq alone."""
        return self._extra().get(TRAINED_ON)

    def training(self) -> str | None:
        """Return the identity of the training; None in a checkpoint of an earlier version or of fairseq alone."""
        return self._extra().get(TRAINING)

    def has_average(self) -> bool:
        """Return whether there is a moving average of the model."""
        return any(key in self._extra() for key in AVERAGES)

    def check_trained(self) -> None:
        """Raise `UserError` if the model was exported in fewer bits: its tensors then encode other numbers."""
        if SCALES in self.contents:
            raise UserError(f"{self.name}: must be a checkpoint of a training, but is exported in fewer bits")

    # Changed copies.

    def with_trained_on(self, record: Mapping[str, Any]) -> CheckpointState:
        """Return the checkpoint with another record of `SubwordIdentity`."""
        return self._with(extra_state={**self._extra(), TRAINED_ON: record})

    def with_models(self, rewrite: Callable[[Tensors], Tensors]) -> CheckpointState:
        """Return the checkpoint with its model and its moving averages rewritten."""
        averages = {key: rewrite(self._extra()[key]) for key in AVERAGES if key in self._extra()}
        return self._with(model=rewrite(self.tensors()), extra_state={**self._extra(), **averages})

    def with_options(self, options: Mapping[str, Any]) -> CheckpointState:
        """Return the checkpoint with some options of its model replaced."""
        return self._with(cfg={**self.contents["cfg"], "model": {**self.options(), **options}})

    def with_groups(self, **groups: Mapping[str, Any]) -> CheckpointState:
        """Return the checkpoint with other groups of options, such as `task`."""
        return self._with(cfg={**self.contents["cfg"], **groups})

    def of_training(self, name: str | None) -> CheckpointState:
        """Return the checkpoint as one of another training; None: of a training without an identity."""
        rest = {key: value for key, value in self._extra().items() if key != TRAINING}
        return self._with(extra_state=rest if name is None else {**rest, TRAINING: name})

    def with_optimizer(self, state: Mapping[str, Any]) -> CheckpointState:
        """Return the checkpoint with another state of its optimizer."""
        return self._with(last_optimizer_state=state)

    def with_schedule_state(self, state: Mapping[str, Any]) -> CheckpointState:
        """Return the checkpoint with another state of its learning-rate schedule."""
        *earlier, last = self.contents["optimizer_history"]
        return self._with(optimizer_history=[*earlier, {**last, "lr_scheduler_state": state}])

    def at_epoch(self, epoch: int) -> CheckpointState:
        """Return the checkpoint at the start of an epoch."""
        position = {**self._extra()["train_iterator"], "epoch": epoch, "iterations_in_epoch": 0}
        return self._with(extra_state={**self._extra(), "train_iterator": position})

    def without(self, *keys: str) -> CheckpointState:
        """Return the checkpoint without `PATIENCE`, `BEST` or `AVERAGES`."""
        return self._with(extra_state={key: value for key, value in self._extra().items() if key not in keys})

    def without_optimizer(self) -> CheckpointState:
        """Return the checkpoint without the optimizer's state."""
        kept = {key: value for key, value in self.contents.items() if key != "last_optimizer_state"}
        return CheckpointState(kept, self.name)

    def _with(self, **parts: Any) -> CheckpointState:
        return CheckpointState({**self.contents, **parts}, self.name)

    def _extra(self) -> Mapping[str, Any]:
        return self.contents.get("extra_state") or {}

    def _position(self, key: str) -> Any:
        position = self._extra().get("train_iterator") or {}
        if key not in position:
            raise self._missing(f"extra_state.train_iterator.{key}", "the position in the data")
        return position[key]

    def _history(self) -> Mapping[str, Any]:
        history: Mapping[str, Any] = (self.contents.get("optimizer_history") or [{}])[-1]
        return history

    def _last(self, key: str, what: str) -> Any:
        if key not in self._history():
            raise self._missing(f"optimizer_history[-1].{key}", what)
        return self._history()[key]

    def _missing(self, key: str, what: str) -> UserError:
        return UserError(f"{self.name}: {key} must be {what}, but is missing")


def new_contents(cfg: Mapping[str, Any], tensors: Tensors) -> dict[str, Any]:
    """Return a training's checkpoint before its first update, with all its options, without an optimizer's state."""
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}
    position = {"version": 2, "epoch": 1, "iterations_in_epoch": 0, "shuffle": True}
    return {
        "args": None,
        "cfg": cfg,
        "model": tensors,
        "criterion": None,
        "optimizer_history": [history],
        "task_state": {},
        "extra_state": {"train_iterator": position},
        "last_optimizer_state": None,
    }
