"""The optimizer state of a grown checkpoint: settings alone, or also Adam's moments of kept and copied parameters.

fairseq numbers the trained parameters in the order of the model, followed by the criterion's. For each of them it keeps
a state: Adam a step and two moments of the parameter's shape. Half precision with flat gradients has a single parameter
instead: all of them, concatenated.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from deepnmt.checkpoints.contents import FULL_PRECISION, is_buffer
from deepnmt.errors import UserError

States = dict[str, dict[str, Any]]


def parameter_names(tensors: Mapping[str, Tensor], left_out: Sequence[str]) -> list[str]:
    """Return the trained parameters of a state dict in its order, tied ones once; `left_out` are not trained."""
    first: dict[tuple[Any, ...], str] = {}
    for name, tensor in tensors.items():
        if not is_buffer(name) and name not in left_out:
            first.setdefault((tensor.data_ptr(), tensor.shape, tensor.stride()), name)
    return list(first.values())


def group_of(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the one group of parameters of the optimizer in the file `name`. Raises `UserError` for more or fewer."""
    groups = state.get("param_groups") or []
    if len(groups) != 1:
        raise UserError(f"{name}: last_optimizer_state.param_groups must have one group, but has {len(groups)}")
    group: dict[str, Any] = groups[0]
    return group


def fresh_state(state: Mapping[str, Any], added: int, name: str) -> dict[str, Any]:
    """Return the state of an optimizer before its first update, for a model with `added` parameters more.

    Raises:
        UserError: the optimizer, in the file `name`, has several groups of parameters
    """
    group = group_of(state, name)
    count = len(group["params"])
    count = count + added if count > 1 else 1
    # apex counts its updates in the group, and corrects the moments by that number.
    kept = {key: value for key, value in group.items() if key != "step"}
    return {**_without_weights(state), "state": {}, "param_groups": [{**kept, "params": list(range(count))}]}


def carried_state(
    state: Mapping[str, Any],
    old: Mapping[str, Tensor],
    new: Mapping[str, Tensor],
    grow: Callable[[States], States],
    name: str,
) -> dict[str, Any]:
    """Return an optimizer's state for a model that has grown, with its knowledge of the old parameters.

    Args:
        state: of the optimizer of the old model
        old: the trained parameters of the old model, in the order of the optimizer
        new: the trained parameters of the new model
        grow: the new states from the old ones, by the names of the parameters
        name: of the file that holds the state, for messages

    Raises:
        UserError: the state does not fit the parameters of the old model
    """
    group = group_of(state, name)
    flat = len(group["params"]) == 1 < len(old)
    if not flat and len(group["params"]) != len(old):
        raise UserError(
            f"--carry-moments: {name} must have an optimizer of the model's {len(old)} parameters, but it has "
            f"{len(group['params'])}"
        )
    known: Mapping[Any, dict[str, Any]] = state["state"]
    if flat:
        states = _split(next(iter(known.values()), {}), old, name)
    else:
        states = {name: dict(known[number]) for number, name in zip(group["params"], old) if number in known}
    for parameter, values in states.items():
        for key, value in values.items():
            if _is_moment(value) and value.shape != old[parameter].shape:
                raise UserError(
                    f"--carry-moments: {name} must have moments of the parameters' shapes, but {key} of {parameter} is "
                    f"{tuple(value.shape)} and not {tuple(old[parameter].shape)}"
                )
    grown = grow(states)
    if flat:
        numbered = {0: _join([grown[name] for name in new])} if grown else {}
        return {**_without_weights(state), "state": numbered, "param_groups": [{**group, "params": [0]}]}
    numbered = {number: grown[name] for number, name in enumerate(new) if name in grown}
    return {**_without_weights(state), "state": numbered, "param_groups": [{**group, "params": list(range(len(new)))}]}


def _without_weights(state: Mapping[str, Any]) -> dict[str, Any]:
    """The state dict without the old model's weights."""
    return {key: value for key, value in state.items() if key != FULL_PRECISION}


def _is_moment(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() > 0


def _split(flat: Mapping[str, Any], parameters: Mapping[str, Tensor], name: str) -> States:
    """Split the state of one concatenated parameter, in the file `name`, into the parameters' own states."""
    sizes = [tensor.numel() for tensor in parameters.values()]
    for key, value in flat.items():
        if _is_moment(value) and value.shape != (sum(sizes),):
            raise UserError(
                f"--carry-moments: {name} must have moments of the model's {sum(sizes)} numbers, but {key} has "
                f"{value.numel()}"
            )
    states: States = {parameter: {} for parameter in parameters} if flat else {}
    for key, value in flat.items():
        parts = value.split(sizes) if _is_moment(value) else [value] * len(sizes)
        for (parameter, tensor), part in zip(parameters.items(), parts):
            states[parameter][key] = part.view(tensor.shape) if _is_moment(value) else part
    return states


def _join(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The reverse of `_split`."""
    return {
        key: torch.cat([state[key].flatten() for state in states]) if _is_moment(value) else value
        for key, value in states[0].items()
    }
