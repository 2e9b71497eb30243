"""From a published state dict, or a folder of transformers, to a whole fairseq checkpoint."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq import options as fairseq_options
from fairseq import tasks
from fairseq.data.data_utils import infer_language_pair
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from torch import Tensor, nn

from deepnmt.checkpoints.contents import check_numbers, is_buffer
from deepnmt.checkpoints.file import check_target, load, write
from deepnmt.checkpoints.importing.inference import Given, check_present, infer
from deepnmt.checkpoints.importing.published_names import shape_text, translate
from deepnmt.checkpoints.importing.transformers_folder import check_vocabularies, read_folder
from deepnmt.checkpoints.state import CheckpointState, new_contents
from deepnmt.errors import UserError
from deepnmt.model.stack import STACKS
from deepnmt.model.transformer import NAME
from deepnmt.recipe.parser import own_command_line
from deepnmt.text.subword_identity import SubwordIdentity

Languages = tuple[Optional[str], Optional[str]]


def import_checkpoint(
    source: Path, target: Path, data: Path, given: Given, languages: Languages = (None, None)
) -> list[str]:
    """Write the checkpoint of a published state dict, atomically.

    Args:
        source: the state dict, as written by `torch.save`; of a whole fairseq checkpoint, its model. Or a folder of
            transformers with an FSMT or M2M100 model
        target: the checkpoint, which must not exist
        data: a folder with the dictionaries of the model
        given: facts that the tensors do not reveal; a folder has them itself
        languages: source and target, if the folder does not name them

        Returns:
            facts about the model, one a line, and the options of `fairseq-train` that train it further

        Raises:
            UserError: the state dict does not come from the published code, does not fit the dictionaries, or raises
                questions that `given` does not answer. Or one of the files is invalid
    """
    check_target(source, target)
    more: dict[str, Any] = {}
    if source.is_dir():
        if given != Given():
            raise UserError(
                f"options of the model cannot be combined with {source}, a folder whose config.json has them"
            )
        published, given, more = read_folder(source)
    else:
        published = read_state_dict(source)
    check_floats(published, source)
    tensors, origin = translate(published)
    options = {**infer(tensors, published, given), **more}
    cfg = configuration(data, options, languages)
    task = tasks.setup_task(cfg.task)
    dictionaries, ends = (task.source_dictionary, task.target_dictionary), (cfg.task.source_lang, cfg.task.target_lang)
    if source.is_dir():
        check_vocabularies(source, data, ends)
    for stack, dictionary, language in zip(STACKS, dictionaries, ends):
        types = len(tensors[f"{stack}.embed_tokens.weight"])
        if len(dictionary) != types:
            raise UserError(
                f"{data / f'dict.{language}.txt'} must have the {types} types of {stack}.embed_tokens.weight, "
                f"special ones included, but has {len(dictionary)}"
            )
    model = task.build_model(cfg.model)
    fill(model, tensors, origin)
    # The caller names its dictionaries: the state dict has no dictionaries.
    identity = SubwordIdentity.of_folder(data, ends)
    write(CheckpointState(new_checkpoint(cfg, model)).with_trained_on(identity.record()).contents, target)
    further = " ".join(map(shlex.quote, ["--restore-file", str(target), *model_words(options)]))
    return [*model_lines(options), f"tensors read: {len(published)}", f"to train it further: {further}"]


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Return the published tensors by their names. Raises `UserError` if the file does not hold a state dict."""
    state = load(path, "state dict", "a state dict, as torch.save writes it")
    if isinstance(state, Mapping) and isinstance(state.get("model"), Mapping):
        state = state["model"]
    if not isinstance(state, Mapping):
        raise UserError(f"{path}: must be a state dict, names with their tensors, but is a {type(state).__name__}")
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise UserError(f"{path}: must be a state dict, but its entry {name} is a {type(value).__name__}")
    return {str(name): tensor for name, tensor in state.items()}


def check_floats(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Raise `UserError` if a tensor in a file or folder has other than finite floating-point numbers."""
    for name, value in tensors.items():
        if not value.is_floating_point() and value.dim():
            raise UserError(f"{path}: model.{name} must be floating-point numbers, but is {value.dtype}")
    check_numbers(tensors, str(path))


def fill(model: torch.nn.Module, tensors: Mapping[str, Tensor], origin: Mapping[str, str]) -> None:
    """Give a model its parameters; `origin` has the published name of each.

    Raises:
        UserError: parameters are missing, of another shape, or not the model's
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


def model_words(options: Mapping[str, Any]) -> list[str]:
    """Return a model's options in the form of a `fairseq-train` command line."""
    words = [f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}") for key, value in options.items()]
    return [f"--arch={NAME}", *words]


def configuration(data: Path, options: Mapping[str, Any], languages: Languages) -> Any:
    """Return the options of fairseq-train for a model and data. Raises `UserError` if a dictionary is missing."""
    if not data.is_dir():
        raise UserError(f"{data}: no folder with the model's dictionaries was found")
    found = [given or told for given, told in zip(languages, infer_language_pair(str(data)))]
    for side, language in zip(("source", "target"), found):
        if language is None:
            raise UserError(f"--{side}-lang must be given, since {data} holds no data such as train.de-en.de.idx")
        if not (data / f"dict.{language}.txt").is_file():
            raise UserError(f"{data}: the dictionary dict.{language}.txt was not found")
    words = [str(data), f"--source-lang={found[0]}", f"--target-lang={found[1]}", *model_words(options)]
    with own_command_line():
        parser = fairseq_options.get_training_parser()
        return convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, words))


def new_checkpoint(cfg: Any, model: nn.Module) -> dict[str, Any]:
    """Return fairseq's record of a training before its first update."""
    options: Any = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    return new_contents(options, model.state_dict())


def model_lines(options: Mapping[str, Any]) -> Iterator[str]:
    """The options that were found or given."""
    for stack in STACKS:
        own = {name: options.get(f"{stack}_{name}") for name in ("layers", "embed_dim", "ffn_embed_dim")}
        yield (
            f"{stack}: {own['layers']} layers, width {own['embed_dim']}, feed-forward {own['ffn_embed_dim']}, "
            f"{options[f'{stack}_attention_heads']} heads, {options[f'{stack}_norm']}-norm, "
            f"groups {options[f'{stack}_groups']}, relative positions {options.get(f'{stack}_max_relative_length', 0)}"
        )
    others = {name: value for name, value in options.items() if not name.startswith(STACKS) or name.endswith("_pos")}
    for name, value in others.items():
        yield f"{name.replace('_', '-')}: {'yes' if value is True else value}"
