"""From a published state dict to a whole checkpoint of fairseq's."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import torch
from fairseq import tasks
from torch import Tensor

from deepnmt.checkpoints.contents import check_numbers, is_buffer
from deepnmt.checkpoints.file import check_target, load, write
from deepnmt.checkpoints.importing.import_report import model_lines
from deepnmt.checkpoints.importing.inference import Given, check_present, infer
from deepnmt.checkpoints.importing.new_checkpoint import Languages, configuration, model_words, new_checkpoint
from deepnmt.checkpoints.importing.published_names import shape_text, translate
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.model.stack import STACKS
from deepnmt.text.subword_identity import SubwordIdentity


def import_checkpoint(
    source: Path, target: Path, data: Path, given: Given, languages: Languages = (None, None)
) -> list[str]:
    """Write the checkpoint of a published state dict, whole or not at all.

    Args:
        source: the state dict, as written by `torch.save`; of a whole checkpoint of fairseq's, its model
        target: the checkpoint, which must not exist
        data: a folder with the dictionaries of the model
        given: what the tensors do not say
        languages: source and target, where the folder does not say

    Returns:
        what the model is, a line a fact, and the options of `fairseq-train` that train it further

    Raises:
        UserError: the state dict is not one of the published code, does not fit the dictionaries, or leaves questions
            open that `given` does not answer; or one of the files is not as it must be
    """
    check_target(source, target)
    published = read_state_dict(source)
    tensors, origin = translate(published)
    options = infer(tensors, published, given)
    cfg = configuration(data, options, languages)
    task = tasks.setup_task(cfg.task)
    dictionaries, ends = (task.source_dictionary, task.target_dictionary), (cfg.task.source_lang, cfg.task.target_lang)
    for stack, dictionary, language in zip(STACKS, dictionaries, ends):
        types = len(tensors[f"{stack}.embed_tokens.weight"])
        if len(dictionary) != types:
            raise UserError(
                f"{data / f'dict.{language}.txt'} must have the {types} types of {stack}.embed_tokens.weight, "
                f"special ones included, but has {len(dictionary)}"
            )
    model = task.build_model(cfg.model)
    fill(model, tensors, origin)
    # Its dictionaries are those that the caller names: the state dict has none.
    identity = SubwordIdentity.of_folder(data, ends)
    write(CheckpointState(new_checkpoint(cfg, model)).with_trained_on(identity.record()).contents, target)
    further = " ".join(map(shlex.quote, ["--restore-file", str(target), *model_words(options)]))
    return [*model_lines(options), f"tensors read: {len(published)}", f"to train it further: {further}"]


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The published tensors by their names.

    Raises:
        UserError: the file cannot be read, or holds something else
    """
    state = load(path, "state dict", "a state dict, as torch.save writes it")
    if isinstance(state, Mapping) and isinstance(state.get("model"), Mapping):
        state = state["model"]
    if not isinstance(state, Mapping):
        raise UserError(f"{path}: must be a state dict, names with their tensors, but is a {type(state).__name__}")
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise UserError(f"{path}: must be a state dict, but its entry {name} is a {type(value).__name__}")
        if not value.is_floating_point() and value.dim():
            raise UserError(f"{path}: model.{name} must be floating-point numbers, but is {value.dtype}")
    tensors = {str(name): tensor for name, tensor in state.items()}
    check_numbers(tensors, str(path))
    return tensors


def fill(model: torch.nn.Module, tensors: Mapping[str, Tensor], origin: Mapping[str, str]) -> None:
    """Give a model its parameters.

    Args:
        model: of the options that the tensors say
        tensors: under the names that they have here
        origin: the published name of each

    Raises:
        UserError: parameters that the model does not have, that are missing, or of another shape
    """
    own = {name: tensor for name, tensor in model.state_dict().items() if not is_buffer(name)}
    if unknown := list(dict.fromkeys(origin[name] for name in tensors if name not in own)):
        raise UserError(f"the state dict must hold parameters of its model only, but holds {', '.join(unknown)}")
    tied = {"decoder.output_projection.weight": "decoder.embed_tokens.weight"}
    found = {name: tensors.get(name, tensors.get(tied.get(name, ""))) for name in own}
    check_present(tensors, [name for name, tensor in found.items() if tensor is None])
    with torch.no_grad():
        for name, parameter in own.items():
            tensor = found[name]
            assert tensor is not None
            if tensor.shape != parameter.shape:
                source = origin.get(name, name)
                raise UserError(f"{source} must give {name} as {shape_text(parameter)}, but gives {shape_text(tensor)}")
            parameter.copy_(tensor)
