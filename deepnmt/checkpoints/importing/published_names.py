"""The names of the published code's parameters, and their counterparts here.

`docs/importing.md` has the same as a table, with the source of each name. Published shapes equal the shapes here, with
two exceptions. An attention's query, key and value projections may be one tensor, stacked vertically, as in fairseq
before 0.9. A history's weight may lack its last dimension. Here it is R x R x S: R rows, S weights per layer output.

Two conventions of a history's norms exist, told apart by their numbers. SDT's code (`fairseq/modules/layer_history.py`)
has one per group and counts from 0, so LN_k is number k - 1. Wang's (`fairseq/modules/dlcl.py`) adds number 0 for the
embedding, without parameters, so LN_k is number k. Wang's code alone has n weights per output (`scalar_n`), which it
interleaves: channel c has weight c mod n.
"""

import re
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.model.stack import STACKS

STACK = r"((?:en|de)coder)"
LAYER = STACK + r"(\.layers\.\d+\.)"
PARAMETER = r"(weight|bias)"
# Each name, as a pattern, with the names here: several where the tensor is cut, none where it is left out.
RULES: list[tuple[str, tuple[str, ...]]] = [
    (STACK + r"\.(embed_tokens|embed_positions)\.weight", (r"\1.\2.weight",)),
    (STACK + r"\.(?:version|embed_positions\._float_tensor)", ()),
    (STACK + rf"\.layer_norm\.{PARAMETER}", (r"\1.layer_norm.\2",)),
    (STACK + r"\.history\.weight", (r"\1.history.weight",)),
    (STACK + rf"\.history\.layer_norms\.(\d+)\.{PARAMETER}", (r"\1.history.layer_norms.\2.\3",)),
    (LAYER + rf"(self_attn|encoder_attn)\.in_proj_{PARAMETER}", tuple(rf"\1\2\3.{x}_proj.\4" for x in "qkv")),
    (LAYER + rf"(self_attn|encoder_attn)\.([qkv]|out)_proj\.{PARAMETER}", (r"\1\2\3.\4_proj.\5",)),
    (LAYER + r"self_attn\.relative_positions?_(keys|values)(?:\.weight)?", (r"\1\2self_attn.relative_\3",)),
    (LAYER + rf"(fc1|fc2)\.{PARAMETER}", (r"\1\2\3.\4",)),
    (LAYER + rf"(self_attn|encoder_attn|final)_layer_norm\.{PARAMETER}", (r"\1\2\3_layer_norm.\4",)),
    (LAYER + rf"layer_norms\.0\.{PARAMETER}", (r"\1\2self_attn_layer_norm.\3",)),
    (rf"(encoder)(\.layers\.\d+\.)layer_norms\.1\.{PARAMETER}", (r"\1\2final_layer_norm.\3",)),
    (rf"(decoder)(\.layers\.\d+\.)layer_norms\.1\.{PARAMETER}", (r"\1\2encoder_attn_layer_norm.\3",)),
    (rf"(decoder)(\.layers\.\d+\.)layer_norms\.2\.{PARAMETER}", (r"\1\2final_layer_norm.\3",)),
    (r"decoder\.(?:embed_out|output_projection\.weight)", ("decoder.output_projection.weight",)),
]


def names_here(name: str) -> tuple[str, ...] | None:
    """Return the names of a published parameter here: one, three, or () if it is left out; None: unknown."""
    for pattern, templates in RULES:
        if found := re.fullmatch(pattern, name):
            return tuple(found.expand(template) for template in templates)
    return None


def counts_norms_from_one(names: Collection[str], stack: str) -> bool:
    """Return whether a history's norms are numbered as in Wang's code, where number 0 has no parameters."""
    numbers = {found[1] for name in names if (found := re.match(rf"{stack}\.history\.layer_norms\.(\d+)\.", name))}
    return "1" in numbers and "0" not in numbers


def translate(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the published tensors under the names that they have here, and for each of these the published name.

    Raises:
        UserError: names that are not known, that stand for the same parameter, or that come with an impossible shape
    """
    result: dict[str, Tensor] = {}
    origin: dict[str, str] = {}
    unknown, faults = [], []
    from_one = [stack for stack in STACKS if counts_norms_from_one(tensors, stack)]
    for name, tensor in tensors.items():
        found = names_here(_counted_from_zero(name, from_one))
        if found is None:
            unknown.append(name)
            continue
        if len(found) > 1 and (not tensor.dim() or len(tensor) % len(found)):
            faults.append(f"{name} must be {len(found)} projections in one, but is {shape_text(tensor)}")
            continue
        for here, part in zip(found, tensor.chunk(len(found)) if len(found) > 1 else [tensor]):
            if here in result:
                faults.append(f"{name} and {origin[here]} must not both be given: they are the same parameter")
            result[here], origin[here] = matrix(name, part) if here.endswith("history.weight") else part, name
    if unknown:
        faults.insert(0, f"the state dict must hold known names only, but holds {', '.join(unknown)}")
    if faults:
        raise UserError(*faults)
    for stack in from_one:
        if f"{stack}.history.weight" in result and f"{stack}.embed_tokens.weight" in result:
            width = result[f"{stack}.embed_tokens.weight"].size(-1)
            result[f"{stack}.history.weight"] = _per_channel(result[f"{stack}.history.weight"], width)
    return result, origin


def _counted_from_zero(name: str, from_one: Sequence[str]) -> str:
    """Return the name of a history's norm as SDT's code numbers it; any other name is left as it is."""
    found = re.fullmatch(r"(\w+)(\.history\.layer_norms\.)(\d+)(\..+)", name)
    if found is None or found[1] not in from_one:
        return name
    return f"{found[1]}{found[2]}{int(found[3]) - 1}{found[4]}"


def _per_channel(weight: Tensor, width: int) -> Tensor:
    """Return W with a weight per channel where several are interleaved: R x R x C, channel c has weight c mod n."""
    slices = weight.size(2)
    return weight if slices == 1 or width % slices else weight.repeat(1, 1, width // slices)


def matrix(name: str, weight: Tensor) -> Tensor:
    """W as R x R x S, from R x R or from R x R x S with dimensions of one between."""
    rows = weight.size(0) if weight.dim() > 1 else 0
    if not rows or weight.size(1) != rows or weight.shape[2:-1].numel() != 1:
        raise UserError(f"{name} must have as many columns as rows, and weights for each, but is {shape_text(weight)}")
    return weight.reshape(rows, rows, -1)


def shape_text(tensor: Tensor) -> str:
    """A shape, such as 512 x 64."""
    return " x ".join(map(str, tensor.shape)) or "a single number"


def version(tensors: Mapping[str, Tensor], stack: str) -> float:
    """The version that fairseq's stacks record in a state dict; 1 if it is missing."""
    return float(tensors.get(f"{stack}.version", torch.ones(1)).flatten()[0])
