"""The options of a model: inferred from its tensors where possible, otherwise as given."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
from torch import Tensor

from deepnmt.checkpoints.importing.published_names import shape_text, version
from deepnmt.errors import UserError
from deepnmt.model.groups import PLAIN, group_boundaries
from deepnmt.model.stack import STACKS

# From these versions on, fairseq's pre-norm stacks end with a layer norm, unless a decoder is told not to.
WITH_FINAL_NORM = {"encoder": 2, "decoder": 3}


@dataclass(frozen=True)
class Given:
    """Facts that tensors may not reveal; for each stack, "encoder" or "decoder", or for both.

    Attributes:
        heads: attention heads, which only relative positions reveal
        norm: "post" or "pre", which a final norm reveals
        groups: as in --encoder-groups; by default groups are equal
        positions: "sinusoidal" or "none"; learned positions and fairseq's buffer of sinusoidal ones are visible
        window: as --dlcl-window; with `softmax` only
        softmax: as --dlcl-softmax
    """

    heads: Mapping[str, int] = field(default_factory=dict)
    norm: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    positions: Optional[str] = None
    window: int = 0
    softmax: bool = False


def infer(tensors: Mapping[str, Tensor], published: Mapping[str, Tensor], given: Given) -> dict[str, Any]:
    """Return the options of the model.

    Args:
        tensors: under their names in this package
        published: the state dict as it was given, for its entries beside parameters
        given: answers to the questions that both leave open

    Raises:
        UserError: lists missing facts, contradictions and facts to be given, a line each
    """
    needed = [f"{stack}.{name}" for stack in STACKS for name in ("embed_tokens.weight", "layers.0.fc1.weight")]
    check_present(tensors, needed)
    faults: list[str] = []
    options: dict[str, Any] = {}
    for stack in STACKS:
        for part in (_sizes, _norm, _groups, _relative):
            try:
                options.update(part(tensors, published, stack, given))
            except ValueError as error:
                faults.append(str(error))
    for part_of_both in (_relative_values, _positions, _history):
        try:
            options.update(part_of_both(tensors, published, given))
        except ValueError as error:
            faults.append(str(error))
    if faults:
        raise UserError(*dict.fromkeys(faults))
    return {**options, **_shared(tensors)}


def check_present(tensors: Mapping[str, Tensor], names: list[str]) -> None:
    """Raise `UserError` for missing parameters, all in one line."""
    if missing := [name for name in names if name not in tensors]:
        raise UserError(f"the state dict must hold all parameters of its model, but lacks {', '.join(missing)}")


def _sizes(tensors: Mapping[str, Tensor], _: Mapping[str, Tensor], stack: str, given: Given) -> dict[str, Any]:
    numbers = {int(found[1]) for name in tensors if (found := re.match(rf"{stack}\.layers\.(\d+)\.", name))}
    if numbers != set(range(len(numbers))):
        text = ", ".join(map(str, sorted(numbers)))
        raise ValueError(f"the {stack}'s layers must be numbered from 0 without gaps, but are {text}")
    width = _width(tensors, stack)
    keys = _relative_name(stack, "keys")
    told = width // _matrix(tensors, keys).size(1) if keys in tensors else None
    heads, option = given.heads.get(stack, told), f"--{stack}-attention-heads"
    if heads is None:
        raise ValueError(f"{option} must be given: only relative positions would tell it")
    if told is not None and heads != told:
        raise ValueError(f"{option} must be {told}, as the relative positions say, but is {heads}")
    return {
        f"{stack}_layers": len(numbers),
        f"{stack}_embed_dim": width,
        f"{stack}_ffn_embed_dim": len(_matrix(tensors, f"{stack}.layers.0.fc1.weight")),
        f"{stack}_attention_heads": heads,
    }


def _width(tensors: Mapping[str, Tensor], stack: str) -> int:
    return _matrix(tensors, f"{stack}.embed_tokens.weight").size(1)


def _matrix(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    if tensors[name].dim() != 2 or not tensors[name].numel():
        raise ValueError(f"{name} must be a matrix, but is {shape_text(tensors[name])}")
    return tensors[name]


def _norm(tensors: Mapping[str, Tensor], published: Mapping[str, Tensor], stack: str, given: Given) -> dict[str, Any]:
    final, option = f"{stack}.layer_norm.weight", f"--{stack}-norm"
    norm = given.norm.get(stack)
    if final in tensors:
        if norm not in (None, "pre"):
            raise ValueError(f"{option} must be pre, since the state dict holds {final}, but is {norm}")
        return {f"{stack}_norm": "pre"}
    if norm is None and version(published, stack) < WITH_FINAL_NORM[stack]:
        raise ValueError(
            f"{option} must be given: without {final} the {stack} is post-norm, or pre-norm of an early version"
        )
    if norm != "pre":
        return {f"{stack}_norm": "post"}
    if stack == "encoder":
        raise ValueError(f"{option} must be post without {final}, but is pre: here its output is normalised")
    return {"decoder_norm": "pre", "no_decoder_final_norm": True}


def _groups(tensors: Mapping[str, Tensor], _: Mapping[str, Tensor], stack: str, given: Given) -> dict[str, Any]:
    weight, option, text = tensors.get(f"{stack}.history.weight"), f"--{stack}-groups", given.groups.get(stack)
    if weight is None:
        if text not in (None, PLAIN):
            raise ValueError(f"{option} must be none without {stack}.history.weight, but is {text}")
        # If a history has norms without weights, its weights are missing.
        norms = any(name.startswith(f"{stack}.history.") for name in tensors)
        return {f"{stack}_groups": "1" if norms else PLAIN}
    depth = len({name.split(".")[2] for name in tensors if name.startswith(f"{stack}.layers.")})
    groups = len(weight) - 1
    if text is None:
        if groups < 1 or depth % groups:
            raise ValueError(
                f"{option} must be given: {stack}.history.weight is of {groups} groups, for {depth} layers"
            )
        return {f"{stack}_groups": str(depth // groups)}
    try:
        boundaries = group_boundaries(text, depth) or ()
    except ValueError as error:
        raise ValueError(f"{option} {error}") from error
    if len(boundaries) - 1 != groups:
        raise ValueError(f"{option} must be of {groups} groups, as {stack}.history.weight is, but is {text}")
    return {f"{stack}_groups": text}


def _relative_name(stack: str, part: str) -> str:
    return f"{stack}.layers.0.self_attn.relative_{part}"


def _relative(tensors: Mapping[str, Tensor], _: Mapping[str, Tensor], stack: str, given: Given) -> dict[str, Any]:
    name = _relative_name(stack, "keys")
    if name not in tensors:
        return {}
    keys = _matrix(tensors, name)
    if len(keys) < 3 or len(keys) % 2 == 0:
        raise ValueError(f"{name} must be an odd number of distances x channels of a head, but is {shape_text(keys)}")
    return {f"{stack}_max_relative_length": len(keys) // 2}


def _relative_values(tensors: Mapping[str, Tensor], _: Mapping[str, Tensor], given: Given) -> dict[str, Any]:
    values = {
        _relative_name(stack, "values") in tensors for stack in STACKS if _relative_name(stack, "keys") in tensors
    }
    if len(values) > 1:
        raise ValueError("relative positions must have values in both stacks or in none, but have them in one")
    return {"relative_positions": "keys"} if values == {False} else {}


def _positions(tensors: Mapping[str, Tensor], published: Mapping[str, Tensor], given: Given) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for stack, side in zip(STACKS, ("source", "target")):
        name = f"{stack}.embed_positions.weight"
        if name in tensors:
            # Positions are counted from the padding's index on.
            options |= {f"{stack}_learned_pos": True, f"max_{side}_positions": len(_matrix(tensors, name)) - 2}
    told = "sinusoidal" if any(name.endswith("embed_positions._float_tensor") for name in published) else None
    told = "learned" if options else told
    if told is None and given.positions is None:
        raise ValueError("--positions must be given: the state dict says nothing of absolute positions")
    if told is not None and given.positions not in (None, told):
        raise ValueError(
            f"--positions must be left out, since the state dict has {told} ones, but is {given.positions}"
        )
    return {**options, **({"no_token_positional_embeddings": True} if given.positions == "none" else {})}


def _history(tensors: Mapping[str, Tensor], _: Mapping[str, Tensor], given: Given) -> dict[str, Any]:
    """The options of both histories."""
    options: dict[str, Any] = {}
    found = {stack: tensors[name] for stack in STACKS if (name := f"{stack}.history.weight") in tensors}
    for stack, weight in found.items():
        text = {1: "scalar", _width(tensors, stack): "vector"}.get(weight.size(2))
        if text is None:
            raise ValueError(
                f"{stack}.history.weight must have one weight per output or one per channel; in Wang's code, with "
                f"norms numbered from 1, a divisor of the {_width(tensors, stack)} channels, but has "
                f"{weight.size(2)}"
            )
        if options.setdefault("dlcl_granularity", text) != text:
            raise ValueError(
                f"both histories must have as many weights per output, but are {options['dlcl_granularity']} and {text}"
            )
    if given.window and not given.softmax:
        raise ValueError(
            "--dlcl-window must be left out without --dlcl-softmax: there the published code's window sets initial "
            "weights alone, and the trained model reads all outputs"
        )
    if given.window:
        options["dlcl_window"] = given.window
    if given.softmax:
        options["dlcl_softmax"] = True
    return options


def _shared(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return which embeddings share one table: equal values, or an absent output projection, which is tied."""
    source, target = (tensors[f"{stack}.embed_tokens.weight"] for stack in STACKS)
    output = tensors.get("decoder.output_projection.weight", target)
    if not torch.equal(target, output):
        return {}
    return {"share_all_embeddings": True} if torch.equal(source, target) else {"share_decoder_input_output_embed": True}
