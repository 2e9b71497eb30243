"""Write the torch engine's files: the checkpoints, without the parts that only a training needs."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepnmt.checkpoints.file import write as write_checkpoint
from deepnmt.checkpoints.packed import packed, unpacked
from deepnmt.checkpoints.safetensors_file import ENDING
from deepnmt.checkpoints.state import SCALES, CheckpointState, new_contents
from deepnmt.errors import UserError
from deepnmt.kernels.products import obstacle

# Endings of the names of options whose values may be paths without a slash. fairseq's own models keep all options of a
# training.
PLACES = ("path", "file", "dir", "pair_weights", "difficulty", "finetune_from_model")


def check(models: Sequence[Any], weights: str) -> None:
    """Raise `UserError` if the processor cannot compute with such weights; see `deepnmt.engines.registry`."""
    if reason := obstacle(weights, torch.device("cpu")):
        raise UserError(f"--weights {weights}: {reason}")


def write(checkpoints: list[Path], data: Path, folder: Path, weights: str) -> None:
    """Write model.safetensors, and of an ensemble model2.safetensors, ...; see `deepnmt.engines.registry`.

    Raises:
        UserError: a checkpoint cannot be read, or the disk is full
    """
    write_models(checkpoints, folder, weights)


def write_models(
    checkpoints: list[Path],
    folder: Path,
    weights: str,
    names: Mapping[str, str] | None = None,
    also: Mapping[str, Tensor] | None = None,
) -> None:
    """Write the same files on any processor, as every engine's folder has them.

    Args:
        checkpoints, folder, weights: as of `write`
        names, also: see `deepnmt.checkpoints.safetensors_file.write`
    """
    for number, path in enumerate(checkpoints, start=1):
        target = folder / f"model{number if number > 1 else ''}{ENDING}"
        write_checkpoint(_model_alone(CheckpointState.of(path), weights), target, names, also)


def _placeless(options: Mapping[str, Any]) -> dict[str, Any]:
    """Drop options that name a file or a folder; their readers then take the defaults.

    Of --fused-encoder, whose weights the model has, the name remains.
    """
    if (fused := options.get("fused_encoder")) is not None:
        options = {**options, "fused_encoder": Path(str(fused)).name}
    return {
        name: value
        for name, value in options.items()
        if name != "data" and not (isinstance(value, str) and ("/" in value or name.endswith(PLACES)))
    }


def _model_alone(state: CheckpointState, weights: str) -> dict[str, Any]:
    """Return a checkpoint without optimizer, scores, and the paths of its training machine."""
    if state.is_old():
        options: dict[str, Any] = {"cfg": None, "args": Namespace(**_placeless(state.options()), data=".")}
    else:
        cfg = {group: _placeless(state.options(group)) for group in ("model", "task")}
        options = {"cfg": {**cfg, "task": {**cfg["task"], "data": "."}}}
    # The task's state contains the direction in which a model writes.
    kept = {"task_state": state.contents.get("task_state") or {}}
    tensors = state.tensors()
    if SCALES in state.contents:
        # A model that was already exported with fewer bits.
        tensors = unpacked(tensors, state.contents[SCALES])
    scales = {}
    if weights != "float32":
        tensors, found = packed(tensors, weights)
        scales = {SCALES: found}
    exported = CheckpointState({**new_contents({}, tensors), **options, **kept, **scales})
    record = state.trained_on()
    return dict((exported if record is None else exported.with_trained_on(record)).contents)
