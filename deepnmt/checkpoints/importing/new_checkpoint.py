"""A whole checkpoint of fairseq's for a model that no training of fairseq's has made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from fairseq import options as fairseq_options
from fairseq.data.data_utils import infer_language_pair
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from torch import nn

from deepnmt.checkpoints.state import new_contents
from deepnmt.errors import UserError
from deepnmt.model.transformer import NAME
from deepnmt.recipe.parser import own_command_line

Languages = tuple[Optional[str], Optional[str]]


def model_words(options: Mapping[str, Any]) -> list[str]:
    """Return a model's options as `fairseq-train` is given them."""
    words = [f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}") for key, value in options.items()]
    return [f"--arch={NAME}", *words]


def configuration(data: Path, options: Mapping[str, Any], languages: Languages) -> Any:
    """What fairseq-train would have for a model's options and a data folder.

    Raises:
        UserError: the folder is missing, or lacks a dictionary
    """
    if not data.is_dir():
        raise UserError(f"{data}: data must be a folder with the model's dictionaries, but there is none")
    found = [given or told for given, told in zip(languages, infer_language_pair(str(data)))]
    for side, language in zip(("source", "target"), found):
        if language is None:
            raise UserError(f"--{side}-lang must be given, since {data} holds no data such as train.de-en.de.idx")
        if not (data / f"dict.{language}.txt").is_file():
            raise UserError(f"{data} must hold the dictionary dict.{language}.txt, but does not")
    words = [str(data), f"--source-lang={found[0]}", f"--target-lang={found[1]}", *model_words(options)]
    with own_command_line():
        parser = fairseq_options.get_training_parser()
        return convert_namespace_to_omegaconf(fairseq_options.parse_args_and_arch(parser, words))


def new_checkpoint(cfg: Any, model: nn.Module) -> dict[str, Any]:
    """Return what fairseq saves of a training before its first update."""
    options: Any = OmegaConf.to_container(cfg, resolve=True, enum_to_str=True)
    return new_contents(options, model.state_dict())
