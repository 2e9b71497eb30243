"""How the stacks of a model grow, and what their tensors and their optimizer's states become."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from torch import Tensor

from deepnmt.checkpoints.grow import preserving
from deepnmt.checkpoints.grow.grow_plan import (
    STRATEGIES,
    HistoryPlan,
    LayerPlan,
    plan_groups,
    plan_history,
    plan_layers,
    unchanged,
)
from deepnmt.checkpoints.optimizer import States
from deepnmt.checkpoints.tensors import grow_tensors, grow_weight, kept_weight, sources, weight_name
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import STACKS


@dataclass(frozen=True)
class Growth:
    """What is asked for.

    Attributes:
        depths: new number of layers by stack, "encoder" or "decoder"; one that is left out stays as it is
        groups: new groups by stack, as in --encoder-groups; by default `plan_groups` derives them from the old ones
        strategy: one of `plan.STRATEGIES`
        function_preserving: the new model's logits are those of the old one
    """

    depths: Mapping[str, int]
    groups: Mapping[str, str] = field(default_factory=dict)
    strategy: str = "stack"
    function_preserving: bool = False


@dataclass(frozen=True)
class StackPlan:
    """What becomes of one stack.

    Attributes:
        stack: "encoder" or "decoder"
        config: options of the new model
        layers: where its layers come from
        history: where its connections come from; None where it is plain or does not grow
        preserved: how it keeps its function; None where that is not asked for
    """

    stack: str
    config: DLCLTransformerConfig
    layers: LayerPlan
    history: Optional[HistoryPlan]
    preserved: Optional[preserving.Preserved]

    @property
    def grows(self) -> bool:
        """Whether it gets layers."""
        return len(self.layers.sources) > len(self.layers.ends) - 1

    @property
    def chained(self) -> bool:
        """Whether new rows of the history read the newest output alone, rather than the mean."""
        return self.preserved is not None and self.preserved.chained

    @property
    def oldest(self) -> Callable[[int], int]:
        """The oldest output that a row of the new history reads."""
        return self.config.stack(self.stack).oldest

    def tensors(self, old: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of the model after this stack has grown, from those before, in the model's order."""

        def rewrite(weight: Tensor) -> Tensor:
            assert self.history is not None
            return grow_weight(weight, self.history, self.oldest, self.config.dlcl_softmax, self.chained)

        new = grow_tensors(old, self.stack, self.layers, self.history, rewrite) if self.grows else dict(old)
        if self.preserved is not None:
            preserving.apply(new, self.config, self.stack, self.layers, self.preserved)
        return new

    def states(self, old: States) -> States:
        """The same of what the optimizer keeps for each parameter; it is zero for what is new in W."""
        if not self.grows:
            return old
        origin = sources(old, self.stack, self.layers, self.history)
        new = {name: dict(old[source]) for name, source in origin.items()}
        for key, value in new.get(weight_name(self.stack), {}).items():
            if isinstance(value, Tensor) and value.dim():
                assert self.history is not None
                kept = kept_weight(value, self.history, self.oldest).to(value.dtype)
                new[weight_name(self.stack)][key] = kept
        return new


def plan_stacks(config: DLCLTransformerConfig, growth: Growth) -> tuple[DLCLTransformerConfig, list[StackPlan]]:
    """The options of the new model, and what becomes of its stacks.

    Args:
        config: options of the old model
        growth: what is asked for

    Raises:
        UserError: says what is not possible, a line a fault
    """
    options, layers = _planned_options(config, growth)
    new = dataclasses.replace(config, **options)
    faults, plans = [], []
    for stack in STACKS:
        preserved = None
        if growth.function_preserving:
            try:
                preserved = preserving.preserve(config, new, stack, layers[stack])
            except ValueError as error:
                faults.append(str(error))
                continue
        before, after, history = config.stack(stack).boundaries, new.stack(stack).boundaries, None
        if preserved is not None:
            history = preserved.history
        elif stack in growth.depths and before is not None and after is not None:
            history = plan_history(layers[stack], before, after, new.stack(stack).oldest)
        plans.append(StackPlan(stack, new, layers[stack], history, preserved))
    if faults:
        raise UserError(*faults)
    return new, plans


def _planned_options(config: DLCLTransformerConfig, growth: Growth) -> tuple[dict[str, Any], dict[str, LayerPlan]]:
    """The options of the model that change, and where the layers of each stack come from."""
    options: dict[str, Any] = {}
    layers: dict[str, LayerPlan] = {}
    faults: list[str] = []
    if growth.strategy not in STRATEGIES:
        raise UserError(f"--strategy must be one of {', '.join(STRATEGIES)}, but is {growth.strategy}")
    if not growth.depths:
        faults.append("--encoder-layers or --decoder-layers must be given")
    for stack in STACKS:
        depth, groups = config.depth(stack), f"{stack}_groups"
        layers[stack] = unchanged(depth)
        if stack not in growth.depths:
            if stack in growth.groups:
                faults.append(f"--{stack}-groups needs --{stack}-layers")
            continue
        option = "layers"
        try:
            layers[stack] = plan_layers(growth.strategy, depth, growth.depths[stack])
            option = "groups"
            options[groups] = plan_groups(str(getattr(config, groups)), layers[stack], growth.groups.get(stack))
        except ValueError as error:
            faults.append(f"--{stack}-{option} {error}")
        options[f"{stack}_layers"] = growth.depths[stack]
    if faults:
        raise UserError(*faults)
    return options, layers
