"""How the stacks of a model shrink, and what their tensors become.

Kept layers compute what they computed: where their residuals depend on the depth (DeepNorm's scale (4), the factors of
sublayer skipping at inference (15)), the last projection of each sublayer makes up for it, as in `growth.preserving`.
B2T with DeepNorm, where no factor can, is left as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from torch import Tensor

from deepnmt.checkpoints.grow import preserving
from deepnmt.checkpoints.grow.grow_plan import HistoryPlan, LayerPlan, unchanged
from deepnmt.checkpoints.shrink.shrink_plan import every, plan_history, plan_layers, shrunk_groups
from deepnmt.checkpoints.shrink.shrink_tensors import shrink_weight
from deepnmt.checkpoints.tensors import grow_tensors
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import STACKS


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
class StackPlan:
    """What becomes of one stack.

    Attributes:
        stack: "encoder" or "decoder"
        old: options of the old model
        new: options of the new one
        layers: what is kept of its layers
        history: what is kept of its connections; None where it is plain or does not shrink
    """

    stack: str
    old: DLCLTransformerConfig
    new: DLCLTransformerConfig
    layers: LayerPlan
    history: Optional[HistoryPlan]

    @property
    def shrinks(self) -> bool:
        """Whether it loses layers."""
        return self.new.depth(self.stack) < self.old.depth(self.stack)

    @property
    def rescaled(self) -> bool:
        """Whether its layers make up for what another depth does to their residuals."""
        return preserving.can_rescale(self.old, self.new, self.stack)

    def tensors(self, old: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of the model after this stack has shrunk, from those before, in the model's order."""

        def rewrite(weight: Tensor) -> Tensor:
            assert self.history is not None
            return shrink_weight(weight, self.history, self.new.stack(self.stack).oldest, self.new.dlcl_softmax)

        new = grow_tensors(old, self.stack, self.layers, self.history, rewrite) if self.shrinks else dict(old)
        if self.rescaled:
            factors = tuple(preserving.branch_factors(self.old, self.new, self.stack, self.layers))
            preserving.scale_branches(new, self.stack, factors)
        return new


def plan_stacks(config: DLCLTransformerConfig, shrinking: Shrinking) -> tuple[dict[str, Any], list[StackPlan]]:
    """The options of the model that change, and what becomes of its stacks.

    Raises:
        UserError: says what is not possible, a line a fault
    """
    options: dict[str, Any] = {}
    layers: dict[str, LayerPlan] = {}
    faults: list[str] = []
    for stack in STACKS:
        depth, option = config.depth(stack), "keep" if stack in shrinking.keep else "every"
        layers[stack] = unchanged(depth)
        if stack in shrinking.keep and stack in shrinking.every:
            faults.append(f"--{stack}-keep and --{stack}-every exclude each other")
        elif stack in getattr(shrinking, option):
            try:
                kept = shrinking.keep[stack] if option == "keep" else every(shrinking.every[stack], depth)
                layers[stack] = plan_layers(kept, depth)
            except ValueError as error:
                faults.append(f"--{stack}-{option} {error}")
                continue
            options[f"{stack}_layers"] = len(kept)
            options[f"{stack}_groups"] = shrunk_groups(str(getattr(config, f"{stack}_groups")), layers[stack])
    if not (shrinking.keep or shrinking.every):
        faults.append("--encoder-keep, --encoder-every, --decoder-keep or --decoder-every must be given")
    if faults:
        raise UserError(*faults)
    new = dataclasses.replace(config, **options)
    plans = []
    for stack, kept_layers in layers.items():
        boundaries, history = config.stack(stack).boundaries, None
        if f"{stack}_layers" in options and boundaries is not None:
            history = plan_history(kept_layers, boundaries, normalize_before=not config.norm(stack).after)
        plans.append(StackPlan(stack, config, new, kept_layers, history))
    return options, plans
