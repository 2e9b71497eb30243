"""Make a deeper checkpoint out of a shallower one, in one explicit step (Li 2020, EMNLP, arXiv 2010.03737).

    lines = grow_checkpoint(Path("6.pt"), Path("12.pt"), Growth({"encoder": 12}, strategy="stack"))

Model, options, moving averages of the model, optimizer and learning rate change. Epoch, data position, number of
updates and scores stay. `deepnmt grow` is the same as a command.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from torch import Tensor

from deepnmt.checkpoints.optimizer import States, carried_state, parameter_names
from deepnmt.checkpoints.plans import (
    STRATEGIES,
    HistoryPlan,
    LayerPlan,
    grown_groups,
    grown_history,
    grown_layers,
    unchanged,
)
from deepnmt.checkpoints.preserving import Preserved, keep_function, preserve
from deepnmt.checkpoints.rewrite import FREEZING, StackPlan, rewrite_file, with_model, with_optimizer
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.checkpoints.tensors import grow_weight, kept_weight, resized_sums, sources, weight_name
from deepnmt.checkpoints.trained_model import model_config
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.frozen_embeddings import frozen_tables
from deepnmt.model.frozen_layers import freeze_text, frozen_names
from deepnmt.model.shared_layers import NONE
from deepnmt.model.stack import STACKS
from deepnmt.model.transparent import SUMS


@dataclass(frozen=True)
class Growth:
    """The request.

    Attributes:
        depths: new number of layers by stack, "encoder" or "decoder"; a missing stack keeps its depth
        groups: new groups by stack, as in --encoder-groups; by default `grown_groups` derives them from the old ones
        strategy: one of `STRATEGIES`
        function_preserving: the new model has the old model's logits
        freeze_old: the old layers of stacks that grow, which are not copies, keep their weights in the next training
    """

    depths: Mapping[str, int]
    groups: Mapping[str, str] = field(default_factory=dict)
    strategy: str = "stack"
    function_preserving: bool = False
    freeze_old: bool = False


@dataclass(frozen=True)
class GrownStack(StackPlan):
    """The change of one stack.

    Attributes:
        preserved: how it keeps its function; None unless requested
    """

    preserved: Optional[Preserved]

    @property
    def rescaled(self) -> bool:
        """Return whether its layers compensate the effect of another depth on their residuals."""
        return self.preserved is not None

    @property
    def chained(self) -> bool:
        """Return whether new rows of the history read the newest output alone, rather than the mean."""
        return self.preserved is not None and self.preserved.chained

    def weight(self, old: Tensor) -> Tensor:
        """Return the new W from the old one."""
        assert self.history is not None
        return grow_weight(old, self.history, self.new.oldest, self.softmax, self.chained)

    def settle(self, tensors: dict[str, Tensor]) -> None:
        """Keep the function of the old stack, if requested."""
        if self.preserved is not None:
            keep_function(tensors, self.new, self.preserved)

    def states(self, old: States) -> States:
        """Return the optimizer's state of each parameter; it is zero for the new weights of W."""
        if not self.layers.changes:
            return old
        origin = sources(old, self.new.name, self.layers, self.history)
        new = {parameter: dict(old[source]) for parameter, source in origin.items()}
        changes: dict[str, Callable[[Tensor], Tensor]] = {}
        if self.old.sums:
            changes[SUMS] = lambda value: resized_sums(value, self.old, self.layers)
        if (history := self.history) is not None:
            changes[weight_name(self.new.name)] = lambda value: kept_weight(value, history, self.new.oldest)
        for name, change in changes.items():
            moments = {key: each for key, each in new.get(name, {}).items() if isinstance(each, Tensor) and each.dim()}
            new.get(name, {}).update({key: change(each).to(each.dtype) for key, each in moments.items()})
        return new

    def layer_fact(self, layer: int) -> str:
        """Return whether a layer passes its input on."""
        return ", as the identity" if self.preserved is not None and layer in self.preserved.identities else ""

    def row_fact(self, row: int, source: Optional[int], history: HistoryPlan) -> str:
        """Return the origin of a row of W, and the number of outputs that it does not read."""
        count = row - self.new.oldest(row)
        if source is None:
            return ": newest output alone" if self.chained else f": mean of {count}"
        unread = count - len(history.reads(row, self.new.oldest))
        return f" <- row {source}" + (f", {unread} new outputs unread" if unread else "")


def grow_checkpoint(
    source: Path, target: Path, growth: Growth, carry_moments: bool = False, keep_schedule: bool = False
) -> list[str]:
    """Write a deeper checkpoint atomically to a new file, and return the changes, a line each; see `grow`.

    Raises:
        UserError: the growth is not possible, or one of the files is invalid
    """
    return rewrite_file(
        source, target, lambda state, config: grow_state(state, config, growth, carry_moments, keep_schedule)
    )


def grow(
    contents: Mapping[str, Any], growth: Growth, carry_moments: bool = False, keep_schedule: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """Return the contents of a deeper checkpoint, and the changes, a line each.

    Args:
        contents: of a fairseq checkpoint; they stay unchanged
        growth: the stacks to grow, and the strategy
        carry_moments: keep the optimizer's moments of kept and copied layers; else it starts afresh
        keep_schedule: do not reset the learning rate to its peak (17)

    Raises:
        UserError: the growth is not possible, or the checkpoint does not hold this model
    """
    old = CheckpointState(contents)
    new, lines = grow_state(old, model_config(old), growth, carry_moments, keep_schedule)
    return dict(new.contents), lines


def grow_state(
    state: CheckpointState, old_config: DLCLTransformerConfig, growth: Growth, carry_moments: bool, keep_schedule: bool
) -> tuple[CheckpointState, list[str]]:
    """See `grow`; `old_config` are the options of the checkpoint's model."""
    config, plans = plan_growth(old_config, growth)
    result, lines = with_model(state, config, plans)
    if carry_moments and state.optimizer() is None:
        raise UserError(f"--carry-moments: no optimizer state found in {state.name}")
    if carry_moments and frozen_names(state.tensors(), state.options()):
        raise UserError(f"--carry-moments: {state.name} has no moments of its frozen layers")

    def carried(optimizer: Mapping[str, Any]) -> dict[str, Any]:
        return _carried(optimizer, state, result, old_config, plans)

    grown, further = with_optimizer(state, result, keep_schedule, carried if carry_moments else None)
    return grown, [*lines, *further]


def plan_growth(config: DLCLTransformerConfig, growth: Growth) -> tuple[DLCLTransformerConfig, list[GrownStack]]:
    """Return the options of the new model, and the changes of its stacks.

    Raises:
        UserError: the growth is not possible; a line for each fault
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
                preserved = preserve(old, new, plan, learns_rows, has_final_norm)
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
    """Return the changed options of the model, and the origin of the layers of each stack."""
    options: dict[str, Any] = dict.fromkeys(FREEZING, NONE)
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
            if growth.freeze_old:
                options[f"{stack.name}_freeze"] = freeze_text(layers[stack.name].old_layers())
        except ValueError as error:
            faults.append(f"--{stack.name}-{option} {error}")
        options[f"{stack.name}_layers"] = growth.depths[stack.name]
    if faults:
        raise UserError(*faults)
    return options, layers


def _carried(
    optimizer: Mapping[str, Any],
    old: CheckpointState,
    new: CheckpointState,
    config: DLCLTransformerConfig,
    plans: Sequence[GrownStack],
) -> dict[str, Any]:
    """Return the grown checkpoint's state of the optimizer."""

    def grown(states: States) -> States:
        for plan in plans:
            states = plan.states(states)
        return states

    frozen = [plan.new for plan in plans if plan.new.boundaries is not None] if config.dlcl_freeze else []
    left_out = [weight_name(stack.name) for stack in frozen]
    left_out += frozen_tables(config)
    # In half precision, fairseq saves tied tensors separately.
    if config.one_table:
        left_out.append("decoder.embed_tokens.weight")
    if config.one_table or config.share_decoder_input_output_embed:
        left_out.append("decoder.output_projection.weight")
    trained = _trained(new, [*left_out, *frozen_names(new.tensors(), new.options())])
    return carried_state(optimizer, _trained(old, left_out), trained, grown, old.name)


def _trained(state: CheckpointState, left_out: list[str]) -> dict[str, Tensor]:
    """Return the parameters that a training from a checkpoint changes, in the order of the optimizer."""
    criterion = {f"criterion.{name}": tensor for name, tensor in state.criterion_tensors().items()}
    tensors = {**state.tensors(), **criterion}
    return {name: tensors[name] for name in parameter_names(tensors, left_out)}
