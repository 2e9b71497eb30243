"""Reads and writes fairseq's checkpoints whole: model, its options, and all that goes on beside them."""

from __future__ import annotations

import re
import zipfile
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from torch import Tensor

import deepnmt
from deepnmt.checkpoints.tensors import weight_name
from deepnmt.checkpoints.untrusted import untrusted_faults
from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import STACKS
from deepnmt.model.transformer import NAME


def load(path: Path, noun: str, kind: str) -> Any:
    """The contents of a file of torch's, on the CPU, read with weights only so that no code in it can run.

    Args:
        path: the file
        noun: what it is, for messages
        kind: what it must be, for messages

    Raises:
        UserError: it is missing, truncated, no such file, or holds types that are not allowed
    """
    if not path.is_file():
        raise UserError(f"{path}: no such {noun}")
    try:
        # Only torch's zip format can stay on the disk until it is written again.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"{path}: must be {kind}, but cannot be read: {reason}") from error


def read(path: Path) -> dict[str, Any]:
    """The contents of a checkpoint, see `load`.

    Raises:
        UserError: the file is missing, truncated, no checkpoint, or holds types that are not allowed
    """
    state = load(path, "checkpoint", "a whole fairseq checkpoint")
    if not isinstance(state, dict) or not isinstance(state.get("model"), Mapping):
        raise UserError(f"{path}: must be a fairseq checkpoint, but holds no model")
    faults = untrusted_faults(state.get("cfg"))
    if faults:
        raise UserError(*(f"{path}: {fault}" for fault in faults))
    return state


def check_target(source: Path, target: Path) -> None:
    """Refuse to write where something is, or where nothing can be.

    Raises:
        UserError: says what the target must be and is
    """
    if target.resolve() == source.resolve():
        raise UserError(f"{target}: the new checkpoint must be another file than the old one, but is the same")
    if target.exists():
        raise UserError(f"{target}: the new checkpoint must not exist yet, but does")
    if not target.parent.is_dir():
        raise UserError(f"{target.parent}: the folder of the new checkpoint must exist, but does not")


def write(state: Mapping[str, Any], target: Path) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        UserError: the disk is full or refuses
    """
    with whole_file(target) as temporary, temporary.open("wb") as file:
        torch.save(state, file)


def model_options(state: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the model as the checkpoint holds them.

    Raises:
        UserError: it holds none
    """
    config = state.get("cfg")
    options = config.get("model") if isinstance(config, Mapping) else None
    if isinstance(options, Namespace):
        options = vars(options)
    if not isinstance(options, Mapping):
        raise UserError("the checkpoint must hold the options of its model (cfg.model), but does not")
    return dict(options)


def with_options(state: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The checkpoint with some of its model's options replaced."""
    return {**state, "cfg": {**state["cfg"], "model": {**model_options(state), **options}}}


def schedule_name(state: Mapping[str, Any]) -> str:
    """The learning-rate schedule that a checkpoint was trained with."""
    schedule = state["cfg"].get("lr_scheduler")
    schedule = vars(schedule) if isinstance(schedule, Namespace) else schedule or {}
    return str(schedule.get("_name") or schedule.get("lr_scheduler"))


def model_config(options: Mapping[str, Any]) -> DLCLTransformerConfig:
    """The configuration for a model's options, with the defaults of its architecture for those left out.

    Raises:
        UserError: it is another model's
    """
    name = options.get("_name") or options.get("arch")
    deepnmt.register()
    known = MODEL_DATACLASS_REGISTRY.get(name)
    if not (isinstance(known, type) and issubclass(known, DLCLTransformerConfig)):
        raise UserError(f"the checkpoint must be one of {NAME}, but is one of {name}")
    return known.from_options(Namespace(**options))


def check_tensors(tensors: Mapping[str, Tensor], config: DLCLTransformerConfig) -> None:
    """See that a model's tensors are those of its configuration, as far as its depth and connections go.

    Raises:
        UserError: says what they must be and are, a line each
    """
    faults = []
    for stack in STACKS:
        found = {m[1] for name in tensors if (m := re.match(rf"{stack}\.layers\.(\d+)\.", name))}
        depth = config.depth(stack)
        if found != set(map(str, range(depth))):
            faults.append(f"the checkpoint must hold {depth} {stack} layers as its options say, but holds {len(found)}")
        weight, boundaries = tensors.get(weight_name(stack)), config.stack(stack).boundaries
        rows, groups = (0 if weight is None else len(weight)), getattr(config, f"{stack}_groups")
        if rows != (0 if boundaries is None else len(boundaries)):
            faults.append(
                f"the checkpoint must hold a history of --{stack}-groups {groups} as its options say, but holds "
                + (f"one of {rows - 1} groups" if rows else "none")
            )
        if getattr(config, f"{stack}_layers_to_keep"):
            faults.append(f"--{stack}-layers-to-keep must not be set in the checkpoint, but is")
    if config.base_layers:
        faults.append(f"--base-layers must be 0 in the checkpoint, but is {config.base_layers}")
    if faults:
        raise UserError(*faults)
