"""Make the start of a training from parts of a checkpoint: the other parts are as a new model has them.

    lines = graft_checkpoint(Path("pretrained.pt"), ["encoder"], Path("start.pt"), seed=1)

The types that only a pre-training has leave the embedding tables. `deepnmt graft` is the same as a command.
"""

import dataclasses
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepnmt.checkpoints.contents import is_buffer
from deepnmt.checkpoints.file import check_target, write
from deepnmt.checkpoints.state import CheckpointState, Tensors, new_contents
from deepnmt.checkpoints.trained_model import EMBEDDINGS, banded_types, check_fit, model_config, stand_in_dictionaries
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.pretraining import ADDED, ENCODER_ALONE, PARTS, TABLES

# As the named recipes have it; `deepnmt finetune` reads it.
CRITERION = {"_name": "label_smoothed_cross_entropy_fused", "label_smoothing": 0.1}


def graft_checkpoint(source: Path, parts: Sequence[str], target: Path, seed: int) -> list[str]:
    """Write a checkpoint with some of `PARTS` atomically to a new file; return the origin of each piece, a line each.

    Raises:
        UserError: one of the files is invalid, or its training left a part as it was
    """
    check_target(source, target)
    state, lines = graft(CheckpointState.of(source), parts, seed)
    write(state.contents, target)
    return lines


def graft(state: CheckpointState, parts: Sequence[str], seed: int) -> tuple[CheckpointState, list[str]]:
    """Return the new checkpoint, before its first update, and the lines of `graft_checkpoint`."""
    state.check_trained()
    config, task = model_config(state), state.options("task")
    check_fit(state, config)
    if config.fused_encoder is not None:
        raise UserError(f"{state.name}: cfg.model.fused_encoder must not be set, but is")
    alone = task.get("_name") == ENCODER_ALONE
    if alone and "decoder" in parts:
        raise UserError(f"{state.name}: has no trained decoder, since {ENCODER_ALONE} trains the encoder alone")
    old = dict(_without_added_types(state))
    torch.manual_seed(seed)
    new = _new_model(config, old).state_dict()
    # Beside an encoder that was trained alone, tables of the decoder's own are as they began.
    beginnings = tuple(name for part in parts for name in PARTS[part] if not (alone and name.startswith("decoder.")))
    copied = set()
    for name, tensor in new.items():
        if name.startswith(beginnings) and not is_buffer(name):
            tensor.copy_(old[name])
            copied.add(tensor.data_ptr())
    options = {**task, "_name": "deep_translation"}
    cfg = {"model": state.options(), "task": options, "criterion": CRITERION}
    grafted = CheckpointState(new_contents(cfg, new), state.name)
    record = state.trained_on()
    return grafted if record is None else grafted.with_trained_on(record), list(_lines(new, copied))


def _without_added_types(state: CheckpointState) -> Iterator[tuple[str, Tensor]]:
    """Yield the parameters, without the rows of types that a pre-training added to the dictionaries."""
    added = state.task_state().get(ADDED, [0, 0])
    if not (isinstance(added, (list, tuple)) and len(added) == 2 and all(type(n) is int and n >= 0 for n in added)):
        raise UserError(f"{state.name}: task_state.{ADDED} must be two whole numbers, but is {str(added)[:60]}")
    for name, tensor in state.tensors().items():
        extra = added[name.startswith("decoder.")] if name.startswith(TABLES) else 0
        if extra and extra >= len(tensor):
            raise UserError(
                f"{state.name}: task_state.{ADDED} must be below the {len(tensor)} types of {name}, but is {added}"
            )
        yield name, tensor[: len(tensor) - extra] if extra else tensor


def _new_model(config: DLCLTransformerConfig, tensors: Tensors) -> DLCLTransformerModel:
    """Return an untrained model with as many types as tables of tensors have rows."""
    plain: dict[str, Any] = {"encoder_embed_path": None, "decoder_embed_path": None}
    sizes = [banded_types(tensors, stack) or len(tensors[name]) for stack, name in EMBEDDINGS.items()]
    source, target = stand_in_dictionaries(config, sizes)
    task = Namespace(source_dictionary=source, target_dictionary=target)
    return DLCLTransformerModel.build_model(dataclasses.replace(config, **plain), task)


def _lines(tensors: Mapping[str, Tensor], copied: set[int]) -> Iterator[str]:
    """Yield each piece of the model, such as a layer, with its origin."""
    pieces: dict[str, list[bool]] = {}
    for name, tensor in tensors.items():
        if is_buffer(name):
            continue
        words = name.split(".")
        piece = ".".join(words[: 3 if words[1] == "layers" else 2])
        pieces.setdefault(piece, []).append(tensor.data_ptr() in copied)
    for piece, origins in pieces.items():
        assert len(set(origins)) == 1
        yield f"{'copied' if origins[0] else 'new':<7}{piece} ({len(origins)} parameters)"
