"""How the stacks of a model grow, and what their tensors and their optimizer's states become."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from torch import Tensor

from deepnmt.checkpoints.grow import preserving
from deepnmt.checkpoints.grow.grow_plan import STRATEGIES, grown_groups, grown_history, grown_layers
from deepnmt.checkpoints.grow.grow_tensors import grow_weight, kept_weight
from deepnmt.checkpoints.optimizer import States
from deepnmt.checkpoints.plans import LayerPlan, unchanged
from deepnmt.checkpoints.stack_plan import StackPlan
from deepnmt.checkpoints.tensors import sources, weight_name
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import STACKS


@dataclass(frozen=True)
class Growth:
    """What is asked for.

    Attributes:
        depths: new number of layers by stack, "encoder" or "decoder"; one that is left out stays as it is
        groups: new groups by stack, as in --encoder-groups; by default `grown_groups` derives them from the old ones
        strategy: one of `grow_plan.STRATEGIES`
        function_preserving: the new model's logits are those of the old one
    """

    depths: Mapping[str, int]
    groups: Mapping[str, str] = field(default_factory=dict)
    strategy: str = "stack"
    function_preserving: bool = False


@dataclass(frozen=True)
class GrownStack(StackPlan):
    """What becomes of one stack.

    Attributes:
        preserved: how it keeps its function; None where that is not asked for
    """

    preserved: Optional[preserving.Preserved]

    @property
    def chained(self) -> bool:
        """Return whether new rows of the history read the newest output alone, rather than the mean."""
        return self.preserved is not None and self.preserved.chained

    def weight(self, old: Tensor) -> Tensor:
        """Return the new W from the old one."""
        assert self.history is not None
        return grow_weight(old, self.history, self.new.oldest, self.softmax, self.chained)

    def settle(self, tensors: dict[str, Tensor]) -> None:
        """Keep the function of the old stack, where that is asked for."""
        if self.preserved is not None:
            preserving.keep_function(tensors, self.new, self.preserved)

    def states(self, old: States) -> States:
        """Return what the optimizer keeps for each parameter; it is zero for what is new in W."""
        name = weight_name(self.new.name)
        if not self.layers.changes:
            return old
        origin = sources(old, self.new.name, self.layers, self.history)
        new = {parameter: dict(old[source]) for parameter, source in origin.items()}
        for key, value in new.get(name, {}).items():
            if isinstance(value, Tensor) and value.dim():
                assert self.history is not None
                new[name][key] = kept_weight(value, self.history, self.new.oldest).to(value.dtype)
        return new


def plan_growth(config: DLCLTransformerConfig, growth: Growth) -> tuple[DLCLTransformerConfig, list[GrownStack]]:
    """Return the options of the new model, and what becomes of its stacks.

    Args:
        config: options of the old model
        growth: what is asked for

    Raises:
        UserError: says what is not possible, a line a fault
    """
    options, layers = _planned_options(config, growth)
    config_after = dataclasses.replace(config, **options)
    learns_rows = not (config.dlcl_freeze or config.dlcl_softmax)
    faults, plans = [], []
    for name, plan in layers.items():
        old, new, preserved, history = config.stack(name), config_after.stack(name), None, None
        if growth.function_preserving:
            has_final_norm = new.norm.before and not (name == "decoder" and config.no_decoder_final_norm)
            try:
                preserved = preserving.preserve(old, new, plan, learns_rows, has_final_norm)
            except ValueError as error:
                faults.append(str(error))
                continue
            history = preserved.history
        elif plan.changes and old.boundaries is not None and new.boundaries is not None:
            history = grown_history(plan, old.boundaries, new.boundaries, new.oldest)
        plans.append(GrownStack(old, new, plan, history, config.dlcl_softmax, preserved))
    if faults:
        raise UserError(*faults)
    return config_after, plans


def _planned_options(config: DLCLTransformerConfig, growth: Growth) -> tuple[dict[str, Any], dict[str, LayerPlan]]:
    """Return the options of the model that change, and where the layers of each stack come from."""
    options: dict[str, Any] = {}
    layers: dict[str, LayerPlan] = {}
    faults: list[str] = []
    if growth.strategy not in STRATEGIES:
        raise UserError(f"--strategy must be one of {', '.join(STRATEGIES)}, but is {growth.strategy}")
    if not growth.depths:
        faults.append("--encoder-layers or --decoder-layers must be given")
    for stack in map(config.stack, STACKS):
        layers[stack.name] = unchanged(stack.layers)
        if stack.name not in growth.depths:
            if stack.name in growth.groups:
                faults.append(f"--{stack.name}-groups needs --{stack.name}-layers")
            continue
        option = "layers"
        try:
            layers[stack.name] = grown_layers(growth.strategy, stack.layers, growth.depths[stack.name])
            option = "groups"
            groups = grown_groups(stack.groups, layers[stack.name], growth.groups.get(stack.name))
            options[f"{stack.name}_groups"] = groups
        except ValueError as error:
            faults.append(f"--{stack.name}-{option} {error}")
        options[f"{stack.name}_layers"] = growth.depths[stack.name]
    if faults:
        raise UserError(*faults)
    return options, layers
