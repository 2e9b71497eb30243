"""Whether a folder's data match the training data of checkpoints, and in which direction."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.options.dual_rules import ARCH, UNSPLIT
from deepnmt.text.dictionary import LM_DICTIONARY, check_dictionary, other_types, read_types
from deepnmt.text.inline_targets import STATE
from deepnmt.text.record import MODEL_FOLDER
from deepnmt.text.settings import TextSettings
from deepnmt.text.subword_identity import SubwordIdentity
from deepnmt.text.translated_folder import data_settings

logger = logging.getLogger(__name__)

# Whether the one line about checkpoints without a record has been logged.
_said = False


def trained_settings(paths: Sequence[Path], data: Path) -> TextSettings:
    """Return the text settings of checkpoints: the data folder's, in the direction of the first checkpoint.

    Args:
        paths: of the checkpoints, one or an ensemble
        data: the data folder

    Raises:
        UserError: a checkpoint cannot be read, or was trained on different data
    """
    task = CheckpointState.of(paths[0], numbers=False).options("task")
    settings = TextSettings.read(data)
    if (task.get("source_lang"), task.get("target_lang")) == settings.reversed().languages:
        settings = settings.reversed()
    for path in paths:
        check_model(path, data, settings.languages)
    return replace(settings, glossary=settings.glossary and all(map(has_inline_targets, paths)))


def has_inline_targets(path: Path) -> bool:
    """Return whether a checkpoint was trained with inline targets, by `preprocess --glossary-training`."""
    return bool(CheckpointState.of(path, numbers=False).task_state().get(STATE))


def check_inline_targets(path: Path) -> None:
    """Raise `UserError` if a checkpoint was trained without inline targets."""
    if not has_inline_targets(path):
        raise UserError(
            f"{path}: --glossary needs a model trained with inline targets (deepnmt preprocess --glossary-training)"
        )


def check_checkpoint(path: Path, data: Path, reverse: bool = False) -> None:
    """Raise `UserError` if a checkpoint cannot be read, or was trained on different data.

    Args:
        path: of the checkpoint
        data: the data folder
        reverse: the checkpoint must translate in the other direction
    """
    languages = data_settings(data, reverse).languages
    check_model(path, data, languages, hint="" if reverse else "; --reverse translates the other way")


def check_model(path: Path, data: Path, languages: tuple[str, str], named: str = "", hint: str = "") -> None:
    """Raise `UserError` if a checkpoint does not translate between two languages with a folder's dictionaries.

    Args:
        path: of the checkpoint
        data: the data folder
        languages: source and target
        named: beginning of the message about a wrong direction
        hint: its end, if the checkpoint translates in the opposite direction
    """
    state = CheckpointState.of(path, numbers=False)
    if state.options().get("_name") == ARCH:
        raise UserError(f"{named}{path}: {UNSPLIT}")
    task = state.options("task")
    trained = task.get("source_lang"), task.get("target_lang")
    if all(trained) and trained != languages:
        raise UserError(
            f"{named}{path}: must translate {' to '.join(languages)}, but translates {' to '.join(map(str, trained))}"
            + (hint if trained == languages[::-1] else "")
        )
    for side, language in zip(("encoder", "decoder"), languages):
        check_rows(state, side, data / f"dict.{language}.txt")
    check_subwords(state, SubwordIdentity.of_folder(data, languages))


def check_language_model(path: Path, data: Path, language: str) -> None:
    """Raise `UserError` if a checkpoint is not a language model, or was trained on different data.

    Args:
        path: of the checkpoint, beside which deepnmt train-lm leaves its dictionary
        data: the data folder of the text
        language: of the text
    """
    dictionary = data / f"dict.{language}.txt"
    state = CheckpointState.of(path, numbers=False)
    if any(name.startswith("encoder.") for name in state.tensors()):
        raise UserError(f"{path}: must be a language model, but is a translation model")
    check_rows(state, "decoder", dictionary)
    check_subwords(state, SubwordIdentity.of_language(data, language))
    if not (path.parent / LM_DICTIONARY).is_file():
        return
    if fault := other_types(read_types(dictionary), read_types(path.parent / LM_DICTIONARY)):
        raise UserError(f"{path}: must be of {dictionary}, {fault}")


def check_fusion(path: Path, data: Path) -> None:
    """Raise `UserError` if a language model has other codes or text settings than a folder's translation model.

    Args:
        path: of the language model's checkpoint; fusion itself compares the dictionaries
        data: a data folder or model folder
    """
    check_subwords(CheckpointState.of(path, numbers=False), SubwordIdentity.of({}, data))


def check_subwords(state: CheckpointState, here: SubwordIdentity) -> None:
    """Raise `UserError` if a checkpoint was trained with other dictionaries, codes or text settings than these.

    Checkpoints of earlier versions, and of fairseq alone, have no record, which is logged once. A model folder's own
    record ties its files together.
    """
    global _said
    record = state.trained_on()
    if record is None:
        if not _said and not Path(state.name).with_name(MODEL_FOLDER).is_file():
            _said = True
            logger.warning(
                f"{state.name} has no checksums of dictionaries, codes and text settings, as it was saved by an "
                f"earlier version or by fairseq alone. Make sure that it was trained on {here.place}"
            )
    elif difference := here.difference(record):
        raise UserError(
            f"{state.name} cannot be used with {here.place}: {difference}; give the data folder of its training"
        )


def check_rows(state: CheckpointState, side: str, dictionary: Path) -> None:
    """Raise `UserError` unless a stack of a checkpoint has an embedding for each type of a dictionary."""
    embedding = state.tensors().get(f"{side}.embed_tokens.weight")
    types = check_dictionary(dictionary)
    rows = types if embedding is None else embedding.shape[:1].numel()
    if rows != types:
        raise UserError(
            f"{state.name}: must have the {types} types of {dictionary} in its {side}, but has {rows}: "
            "it was trained on other data"
        )
