"""Checkpoints in the format of safetensors: tensors, and all else as JSON in the header. Nothing in it can be run.

The header's entry `deepnmt` has the checkpoint without its tensors, the stored name of each, and the model's buffers:

    {"checkpoint": {"cfg": {...}, ...}, "model": {"encoder.embed_tokens.weight": ...}, "row_scales": {},
     "buffers": {"encoder.version": [3.0]}}

Two names of one tensor have one stored name. Other programs know the stored names alone.

Nothing here imports fairseq.
"""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepnmt.checkpoints.contents import is_buffer
from deepnmt.errors import UserError

ENDING = ".safetensors"
HEADER = "deepnmt"
# The model's tensors, and the scales of their rows (`state.py`).
PARTS = ("model", "row_scales")
# The options of fairseq before 0.10.
OLD_OPTIONS = "args"


def write(contents: Mapping[str, Any], path: Path, names: Mapping[str, str], also: Mapping[str, Tensor]) -> None:
    """Write a checkpoint.

    Args:
        contents: of the checkpoint
        path: of the file
        names: stored names of the model's tensors, where these are not their own
        also: tensors for other programs, by their stored names

    Raises:
        UserError: an entry beside the tensors is not a plain value
    """
    from safetensors.torch import save_file  # here, since a folder of earlier versions does without

    stored = dict(also)
    known: dict[tuple[Any, ...], str] = {}
    places: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    for part, name, tensor in _tensors(contents):
        own = name if part == PARTS[0] else f"{part}.{name}"
        same = part, tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype
        place = names.get(own) or known.setdefault(same, own)
        if place not in stored:
            # Two stored tensors must not share their memory.
            shared = tensor.data_ptr() in {other.data_ptr() for other in stored.values()}
            stored[place] = tensor.clone(memory_format=torch.contiguous_format) if shared else tensor.contiguous()
        places[part][name] = place
    rest = {name: value for name, value in contents.items() if name not in PARTS}
    if isinstance(rest.get(OLD_OPTIONS), Namespace):
        rest[OLD_OPTIONS] = vars(rest[OLD_OPTIONS])
    buffers = {name: tensor.tolist() for name, tensor in contents["model"].items() if is_buffer(name)}
    header = json.dumps({"checkpoint": rest, **places, "buffers": buffers}, default=_refuse)
    save_file(stored, path, {"format": "pt", HEADER: header})


def read(path: Path) -> dict[str, Any]:
    """Return the contents of a checkpoint, whose tensors stay on the disk until they are needed.

    Raises:
        UserError: another program wrote the file
        Exception: it is damaged; of safetensors, or of the header's JSON
    """
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        header = (file.metadata() or {}).get(HEADER)
        if header is None:
            raise UserError(f"{path}: must be a checkpoint written by deepnmt, but another program wrote it")
        described, stored = json.loads(header), _stored(file)
    contents = dict(described["checkpoint"])
    if contents.get(OLD_OPTIONS) is not None:
        contents[OLD_OPTIONS] = Namespace(**contents[OLD_OPTIONS])
    for part in PARTS:
        if described[part]:
            contents[part] = {name: stored[place] for name, place in described[part].items()}
    contents["model"] |= {name: torch.tensor(values) for name, values in described["buffers"].items()}
    return contents


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors in a file of any program, by their stored names. Raises an exception as `read`."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return _stored(file)


def _stored(file: Any) -> dict[str, Tensor]:
    return {place: file.get_tensor(place) for place in file.keys()}  # noqa: SIM118, since it is no mapping


def _tensors(contents: Mapping[str, Any]) -> Iterator[tuple[str, str, Tensor]]:
    """Yield part, name and tensor, without the buffers, which other programs do not know."""
    for part in PARTS:
        for name, tensor in contents.get(part, {}).items():
            if not is_buffer(name):
                yield part, name, tensor


def _refuse(value: object) -> Any:
    raise UserError(f"the options of a model folder must be plain values, but have a {type(value).__name__}")
