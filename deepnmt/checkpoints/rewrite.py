"""Give a checkpoint a model of another depth: the common part of growing and shrinking.

Epoch, data position and number of updates stay as they are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from torch import Tensor

from deepnmt.checkpoints.file import check_target, write
from deepnmt.checkpoints.optimizer import fresh_state
from deepnmt.checkpoints.plans import HistoryPlan, LayerPlan
from deepnmt.checkpoints.state import PATIENCE, CheckpointState, Tensors
from deepnmt.checkpoints.tensors import resized_sums, sources, weight_name
from deepnmt.checkpoints.trained_model import check_fit, check_whole, model_config
from deepnmt.errors import UserError
from deepnmt.lr_schedulers.inverse_sqrt_reset import with_reset
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.frozen_layers import frozen_names
from deepnmt.model.shared_layers import NONE
from deepnmt.model.stack import STACKS, StackOptions
from deepnmt.model.transparent import SUMS

RESETTABLE = "inverse_sqrt_reset"
FREEZING = tuple(f"{stack}_freeze" for stack in STACKS)
NO_OPTIMIZER = "optimizer: none in the checkpoint; a training from it counts its updates from 0"
Change = Callable[[CheckpointState, DLCLTransformerConfig], tuple[CheckpointState, list[str]]]


@dataclass(frozen=True)
class StackPlan(ABC):
    """One stack of a model whose depth changes.

    Attributes:
        old: its numbers before
        new: its numbers after
        layers: the origin of its layers
        history: the origin of its connections; None for a plain stack, and one that keeps its depth
        softmax: the weights of its connections are logits
    """

    old: StackOptions
    new: StackOptions
    layers: LayerPlan
    history: Optional[HistoryPlan]
    softmax: bool

    @property
    @abstractmethod
    def rescaled(self) -> bool:
        """Return whether its layers compensate the effect of another depth on their residuals."""

    @abstractmethod
    def weight(self, old: Tensor) -> Tensor:
        """Return the new W from the old one; there is a `history`."""

    @abstractmethod
    def settle(self, tensors: dict[str, Tensor]) -> None:
        """Adapt the tensors of the new model to the new depth; changed tensors are replaced."""

    @abstractmethod
    def row_fact(self, row: int, source: Optional[int], history: HistoryPlan) -> str:
        """Return the origin of a row of W, for the user: `row` from 1, and the old one that it is."""

    def layer_fact(self, layer: int) -> str:
        """Return a remark on a layer, from 0, for the user."""
        return ""

    def tensors(self, old: Tensors) -> dict[str, Tensor]:
        """Return the model's tensors, in its order, after the change of this stack; copies share no memory."""
        new = dict(old)
        if self.layers.changes:
            origin = sources(old, self.new.name, self.layers, self.history)
            new = {name: old[source] if name == source else old[source].clone() for name, source in origin.items()}
            if self.old.sums:
                new[SUMS] = resized_sums(new[SUMS], self.old, self.layers)
            if self.history is not None:
                name = weight_name(self.new.name)
                new[name] = self.weight(new[name])
        self.settle(new)
        return new

    def facts(self) -> Iterator[str]:
        """Yield the change of the stack, a line each; layers, groups and rows are counted from 1."""
        stack, before, after = self.new.name, self.old.residual_scale, self.new.residual_scale
        if self.layers.changes:
            yield f"{stack} layers: {self.old.layers} -> {self.new.layers}"
            yield f"{stack} groups: {self.old.groups} -> {self.new.groups}"
            if self.old.sums:
                yield f"{stack} sums: as in the origin of each layer"
            for layer, source in enumerate(self.layers.sources):
                yield f"{stack} layer {layer + 1} <- layer {source + 1}{self.layer_fact(layer)}"
        if before != after:
            text = ", made up for in the last projection of each sublayer" if self.rescaled else ""
            yield f"{stack} DeepNorm scale: {before:.4g} -> {after:.4g}{text}"
        if self.history is not None:
            for row, old_row in enumerate(self.history.rows, start=1):
                yield f"{stack} history row {row}{self.row_fact(row, old_row, self.history)}"
            for group, norm in enumerate(self.history.norms, start=1):
                yield f"{stack} history norm {group} <- norm {norm}"


def rewrite_file(source: Path, target: Path, change: Change) -> list[str]:
    """Write a changed checkpoint of this package's model atomically to a new file; return the changes.

    Raises:
        UserError: one of the files is invalid, or the change is not possible
    """
    check_target(source, target)
    state, lines = rewritten(CheckpointState.of(source), change)
    write(state.contents, target)
    return lines


def rewritten(state: CheckpointState, change: Change) -> tuple[CheckpointState, list[str]]:
    """Check a checkpoint's model, and return the changed checkpoint and the changes, a line each.

    Raises:
        UserError: the model is not one of this package's or contradicts its options, or the change is not possible
    """
    state.check_trained()
    config = model_config(state)
    check_whole(state, config)
    check_fit(state, config)
    return change(state, config)


def with_model(
    state: CheckpointState, config: DLCLTransformerConfig, plans: Sequence[StackPlan]
) -> tuple[CheckpointState, list[str]]:
    """Return the checkpoint with the new model of these options and plans, and the changes, a line each."""

    def rewrite(tensors: Tensors) -> Tensors:
        for plan in plans:
            tensors = plan.tensors(tensors)
        return tensors

    changed = [plan.new.name for plan in plans if plan.layers.changes]
    names = [f"{stack}_{option}" for option in ("layers", "groups") for stack in STACKS if stack in changed]
    # Checkpoints of earlier versions lack this option.
    names += [name for name in FREEZING if getattr(config, name) != state.options().get(name, NONE)]
    # Without patience left, a training would end at once.
    result = state.with_options({name: getattr(config, name) for name in names}).with_models(rewrite).without(PATIENCE)
    average = ["moving average of the model: as the model"] if state.has_average() else []
    return result, [*(line for plan in plans for line in plan.facts()), *average]


def with_optimizer(
    old: CheckpointState,
    new: CheckpointState,
    keep_schedule: bool,
    carried: Optional[Callable[[Mapping[str, Any]], dict[str, Any]]] = None,
) -> tuple[CheckpointState, list[str]]:
    """Return a checkpoint of another depth with its optimizer and learning rate, and the changes, a line each.

    Args:
        old: the checkpoint
        new: the same with its new model
        keep_schedule: leave the learning rate as it is, rather than resetting it to its peak where possible
        carried: the new state of the optimizer from the old one; by default it starts afresh

    Raises:
        UserError: the optimizer has several groups of parameters, or the checkpoint does not say when it was saved
    """
    optimizer = old.optimizer()
    if optimizer is None:
        return new, [NO_OPTIMIZER]
    added = _trained_tensors(new) - _trained_tensors(old)
    new = new.with_optimizer(carried(optimizer) if carried else fresh_state(optimizer, added, old.name))
    moments = f"optimizer: moments {'carried, zero for new history weights' if carried else 'dropped'}"
    if keep_schedule:
        return new, [moments, "learning rate: continues as before"]
    if (schedule := old.schedule()) != RESETTABLE:
        return new, [moments, f"learning rate: continues as before, since {schedule} has no reset; {RESETTABLE} has"]
    updates = old.updates()
    try:
        reset = with_reset(old.schedule_state(), updates)
    except (TypeError, ValueError) as error:
        key = "optimizer_history[-1].lr_scheduler_state"
        raise UserError(f"{old.name}: {key} must be what {RESETTABLE} keeps, but is not") from error
    return new.with_schedule_state(reset), [moments, f"learning rate: back to its peak at update {updates}"]


def _trained_tensors(state: CheckpointState) -> int:
    return len(state.tensors()) - len(frozen_names(state.tensors(), state.options()))
