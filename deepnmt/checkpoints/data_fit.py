"""Whether checkpoints were trained on data like that of a folder, and in which direction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.text.dictionary import check_dictionary
from deepnmt.text.settings import TextSettings
from deepnmt.text.translated_folder import data_settings


def trained_settings(paths: Sequence[Path], data: Path) -> TextSettings:
    """Return the text settings of checkpoints: those of a data folder, in the direction that the first one translates.

    Args:
        paths: of the checkpoints, one or an ensemble
        data: the data folder

    Raises:
        UserError: a checkpoint cannot be read, or was not trained on data like this
    """
    task = CheckpointState.of(paths[0], numbers=False).options("task")
    settings = TextSettings.read(data)
    reverse = (task.get("source_lang"), task.get("target_lang")) == settings.reversed().languages
    for path in paths:
        check_checkpoint(path, data, reverse)
    return data_settings(data, reverse)


def check_checkpoint(path: Path, data: Path, reverse: bool = False) -> None:
    """Raise `UserError` if a checkpoint cannot be read, or was not trained on data like this.

    Args:
        path: of the checkpoint
        data: the data folder
        reverse: the checkpoint must translate in the other direction
    """
    state = CheckpointState.of(path, numbers=False)
    languages = data_settings(data, reverse).languages
    task = state.options("task")
    trained = task.get("source_lang"), task.get("target_lang")
    if all(trained) and trained != languages:
        is_other = trained == languages[::-1]
        raise UserError(
            f"checkpoint {path} translates {trained[0]} to {trained[1]}, but {data} is {languages[0]} to {languages[1]}"
            + (" with --reverse" if reverse else "; --reverse translates the other way" if is_other else "")
        )
    for side, language in zip(("encoder", "decoder"), languages):
        check_rows(state, side, data / f"dict.{language}.txt")


def check_rows(state: CheckpointState, side: str, dictionary: Path) -> None:
    """Raise `UserError` if a stack of a checkpoint has not an embedding for each type of a dictionary."""
    embedding = state.tensors().get(f"{side}.embed_tokens.weight")
    types = check_dictionary(dictionary)
    rows = types if embedding is None else embedding.shape[:1].numel()
    if rows != types:
        raise UserError(
            f"dictionary {dictionary} has {types} types, but the {side} of checkpoint {state.name} has "
            f"{rows}: it was trained on other data"
        )
