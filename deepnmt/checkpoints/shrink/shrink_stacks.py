"""How the stacks of a model shrink, and what their tensors become.

Kept layers compute what they computed, see `rescale.py`. B2T with DeepNorm, where no factor can make up for the depth,
is left as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from deepnmt.checkpoints.plans import LayerPlan, unchanged
from deepnmt.checkpoints.rescale import branch_factors, can_rescale, scale_branches
from deepnmt.checkpoints.shrink.shrink_plan import every, kept_layers, shrunk_groups, shrunk_history
from deepnmt.checkpoints.shrink.shrink_tensors import shrink_weight
from deepnmt.checkpoints.stack_plan import StackPlan
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import STACKS, StackOptions


@dataclass(frozen=True)
class Shrinking:
    """What is asked for; a stack stands in one of the two, or in none.

    Attributes:
        keep: by stack, "encoder" or "decoder", the layers to keep, from 1
        every: by stack, to keep the first of each so many layers
    """

    keep: Mapping[str, Sequence[int]] = field(default_factory=dict)
    every: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ShrunkStack(StackPlan):
    """What becomes of one stack."""

    @property
    def rescaled(self) -> bool:
        """Return whether its layers make up for what another depth does to their residuals."""
        return can_rescale(self.old, self.new)

    def weight(self, old: Tensor) -> Tensor:
        """Return the new W from the old one."""
        assert self.history is not None
        return shrink_weight(old, self.history, self.new.oldest, self.softmax)

    def settle(self, tensors: dict[str, Tensor]) -> None:
        """Make up for what another depth does to the residuals."""
        if self.rescaled:
            scale_branches(tensors, self.new.name, branch_factors(self.old, self.new, self.layers))


def plan_shrinking(
    config: DLCLTransformerConfig, shrinking: Shrinking
) -> tuple[DLCLTransformerConfig, list[ShrunkStack]]:
    """Return the options of the new model, and what becomes of its stacks.

    Raises:
        UserError: says what is not possible, a line a fault
    """
    options: dict[str, Any] = {}
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
    """Return what is kept of one stack; a `ValueError` names the option that cannot be followed."""
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
