"""Make a shallower checkpoint out of a deeper one, in one explicit step: the reverse of `deepnmt.checkpoints.grow`.

    lines = shrink_checkpoint(Path("12.pt"), Path("6.pt"), Shrinking(every={"encoder": 2}))

Kept layers compute the same as before, see `preserving.py`. B2T with DeepNorm, and average attention, are left as they
are where no factor can compensate the depth. Epoch, data position and number of updates stay. The optimizer starts
afresh, and the learning rate from its peak. `deepnmt shrink` is the same as a command.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from torch import Tensor

from deepnmt.checkpoints.plans import (
    HistoryPlan,
    LayerPlan,
    every,
    gathered,
    kept_layers,
    shrunk_groups,
    shrunk_history,
    unchanged,
)
from deepnmt.checkpoints.preserving import branch_factors, rescaling_obstacle, scale_branches
from deepnmt.checkpoints.rewrite import FREEZING, StackPlan, rewrite_file, with_model, with_optimizer
from deepnmt.checkpoints.state import BEST, CheckpointState
from deepnmt.checkpoints.tensors import shrink_weight
from deepnmt.checkpoints.trained_model import model_config
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.shared_layers import NONE
from deepnmt.model.stack import STACKS, StackOptions


@dataclass(frozen=True)
class Shrinking:
    """The request; a stack is in one of the two mappings, or in neither.

    Attributes:
        keep: by stack, "encoder" or "decoder", the layers to keep, from 1
        every: by stack, N to keep the first of each N layers
    """

    keep: Mapping[str, Sequence[int]] = field(default_factory=dict)
    every: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ShrunkStack(StackPlan):
    """The change of one stack."""

    @property
    def rescaled(self) -> bool:
        """Return whether its layers compensate the effect of another depth on their residuals."""
        return rescaling_obstacle(self.old, self.new, self.layers) is None

    def weight(self, old: Tensor) -> Tensor:
        """Return the new W from the old one."""
        assert self.history is not None
        return shrink_weight(old, self.history, self.new.oldest, self.softmax)

    def settle(self, tensors: dict[str, Tensor]) -> None:
        """Compensate the effect of another depth on the residuals."""
        if self.rescaled:
            scale_branches(tensors, self.new, branch_factors(self.old, self.new, self.layers))

    def row_fact(self, row: int, source: Optional[int], history: HistoryPlan) -> str:
        """Return the origin of a row of W, and the old outputs whose weights it adds."""
        weights = gathered(history, row, self.new.oldest).values()
        return f" <- row {source}, weights of " + ", ".join(
            "+".join(map(str, outputs)) or "none" for outputs in weights
        )


def shrink_checkpoint(source: Path, target: Path, shrinking: Shrinking, keep_schedule: bool = False) -> list[str]:
    """Write a shallower checkpoint atomically to a new file, and return the changes; see `shrink`.

    Raises:
        UserError: those layers cannot be kept, or one of the files is invalid
    """
    return rewrite_file(source, target, lambda state, config: shrink_state(state, config, shrinking, keep_schedule))


def shrink(
    contents: Mapping[str, Any], shrinking: Shrinking, keep_schedule: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return the contents of a shallower checkpoint, and the changes, a line each.

    Args:
        contents: of a fairseq checkpoint; they stay unchanged
        shrinking: the layers to keep
        keep_schedule: do not reset the learning rate to its peak (17)

    Raises:
        UserError: those layers cannot be kept, or the checkpoint does not hold this model
    """
    old = CheckpointState(contents)
    new, lines = shrink_state(old, model_config(old), shrinking, keep_schedule)
    return dict(new.contents), lines


def shrink_state(
    state: CheckpointState, old_config: DLCLTransformerConfig, shrinking: Shrinking, keep_schedule: bool
) -> tuple[CheckpointState, list[str]]:
    """See `shrink`; `old_config` are the options of the checkpoint's model."""
    result, lines = with_model(state, *plan_shrinking(old_config, shrinking))
    if state.has_best():
        # No shallower model would soon reach it, and checkpoint_best.pt would not be written.
        result = result.without(BEST)
        lines.append("best validation score: forgotten, since it belongs to the deeper model")
    result, further = with_optimizer(state, result, keep_schedule)
    return result, [*lines, *further]


def plan_shrinking(
    config: DLCLTransformerConfig, shrinking: Shrinking
) -> tuple[DLCLTransformerConfig, list[ShrunkStack]]:
    """Return the options of the new model, and the changes of its stacks. Raises `UserError`, a line for each fault."""
    options: dict[str, Any] = dict.fromkeys(FREEZING, NONE)
    layers: dict[str, LayerPlan] = {}
    faults: list[str] = []
    for stack in map(config.stack, STACKS):
        try:
            layers[stack.name] = _layers(stack, shrinking)
        except ValueError as error:
            faults.append(str(error))
            continue
        if layers[stack.name].changes:
            options[f"{stack.name}_layers"] = len(layers[stack.name].sources)
            options[f"{stack.name}_groups"] = shrunk_groups(stack.groups, layers[stack.name])
    if not (shrinking.keep or shrinking.every):
        faults.append("--encoder-keep, --encoder-every, --decoder-keep or --decoder-every must be given")
    if faults:
        raise UserError(*faults)
    new = dataclasses.replace(config, **options)
    plans = []
    for name, plan in layers.items():
        old, history = config.stack(name), None
        if plan.changes and old.boundaries is not None:
            history = shrunk_history(plan, old.boundaries, normalize_before=not old.norm.after)
        plans.append(ShrunkStack(old, new.stack(name), plan, history, config.dlcl_softmax))
    return new, plans


def _layers(stack: StackOptions, shrinking: Shrinking) -> LayerPlan:
    """Return the kept layers of one stack; a `ValueError` names an option that cannot be obeyed."""
    if stack.name in shrinking.keep and stack.name in shrinking.every:
        raise ValueError(f"--{stack.name}-keep and --{stack.name}-every exclude each other")
    if stack.name not in shrinking.keep and stack.name not in shrinking.every:
        return unchanged(stack.layers)
    option = "keep" if stack.name in shrinking.keep else "every"
    try:
        kept = shrinking.keep[stack.name] if option == "keep" else every(shrinking.every[stack.name], stack.layers)
        return kept_layers(kept, stack.layers)
    except ValueError as error:
        raise ValueError(f"--{stack.name}-{option} {error}") from error
