"""Translation and language models with the dictionaries of a data folder, ready to score."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask


@dataclass(frozen=True)
class LoadedModels:
    """Models of one feature.

    Attributes:
        models: in evaluation mode, on the GPU if there is one
        source: dictionary
        target: dictionary
        right_to_left: their targets are reversed
        cuda: they are on the GPU
    """

    models: list[Any]
    source: Dictionary
    target: Dictionary
    right_to_left: bool
    cuda: bool

    def check_lengths(self, named: str, sources: Iterable[int], targets: Iterable[int]) -> None:
        """Raise `UserError` if a source or a target is longer than the positions of a model.

        Args:
            named: how the message begins
            sources: numbers of tokens, end symbols included; of no interest to language models
            targets: the same
        """
        longest = {"source": max(sources, default=0), "target": max(targets, default=0)}
        for model in self.models:
            limits = model.max_positions()
            # A language model has those of its target alone.
            sides = ("source", "target") if isinstance(limits, tuple) else ("target",)
            for side, limit in zip(sides, limits if isinstance(limits, tuple) else (limits,)):
                if limit is not None and longest[side] > limit:
                    raise UserError(
                        f"{named}: a {side} must have at most the {int(limit)} positions of the model, but one has "
                        f"{longest[side]}"
                    )


def load_models(
    checkpoints: Sequence[Path], data: Path, languages: tuple[str, str], language_model: bool = False
) -> LoadedModels:
    """Return the models of checkpoints, which the caller has checked.

    Args:
        checkpoints: one, or an ensemble
        data: has the dictionaries
        languages: source and target of the models
        language_model: they are language models of the target
    """
    config = DeepTranslationConfig(data=str(data), source_lang=languages[0], target_lang=languages[1])
    paths = (data / f"dict.{language}.txt" for language in languages)
    source, target = (DeepTranslationTask.load_dictionary(str(path)) for path in paths)
    task: Any = DeepTranslationTask(config, source, target)
    if language_model:
        task = LanguageModelingTask(LanguageModelingConfig(), target, target)
    models, _ = checkpoint_utils.load_model_ensemble([str(path) for path in checkpoints], task=task)
    cuda = torch.cuda.is_available()
    ready = [model.eval().cuda() if cuda else model.eval() for model in models]
    # The task has learnt it from the checkpoints.
    return LoadedModels(ready, source, target, bool(getattr(task, "right_to_left", False)), cuda)


def encode(dictionary: Dictionary, subwords: str) -> Tensor:
    """Return the tokens of subwords and the end symbol."""
    tokens: Tensor = dictionary.encode_line(subwords, line_tokenizer=str.split, add_if_not_exist=False).long()
    return tokens
