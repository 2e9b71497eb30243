"""log P of given translations by models: of the translation, of the source from it, or by a language model.

A pair has the sum of log P over its tokens, the end symbol included, in nats, by fairseq's `SequenceScorer`. Models
trained right to left receive reversed targets.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import collate
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from torch import Tensor

from deepnmt import console
from deepnmt.checkpoints.data_fit import check_inline_targets, check_language_model, check_model
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.reranking.merged_lists import MergedLists
from deepnmt.reranking.result_folder import FOLDER, digest, keep, kept
from deepnmt.text.lines import whole_text
from deepnmt.text.translated_folder import data_settings, lines_of
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

Pairs = Sequence[tuple[str, str]]


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
        """Raise `UserError`, which begins with `named`, if a source or target is longer than a model's positions.

        Lengths are numbers of tokens, end symbols included; language models have no sources.
        """
        longest = {"source": max(sources, default=0), "target": max(targets, default=0)}
        for model in self.models:
            limits = model.max_positions()
            # A language model has limits for its target alone.
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
    """Return the models of checkpoints, which the caller has checked, with the dictionaries of a data folder.

    Args:
        checkpoints: one, or an ensemble
        data: the data folder
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
    # The task has read it from the checkpoints.
    return LoadedModels(ready, source, target, bool(getattr(task, "right_to_left", False)), cuda)


def encode(dictionary: Dictionary, subwords: str) -> Tensor:
    """Return the tokens of subwords and the end symbol."""
    tokens: Tensor = dictionary.encode_line(subwords, line_tokenizer=str.split, add_if_not_exist=False).long()
    return tokens


class Kind(Enum):
    """The kind of a model's score; the value is its option's name."""

    TRANSLATION = "--score"
    REVERSE = "--reverse"
    LANGUAGE = "--lm"


@dataclass(frozen=True)
class ModelFeature:
    """A feature that models give.

    Attributes:
        name: of the feature
        kind: kind of the score
        checkpoints: one, or an ensemble by its mean probability
        given: its name on the command line; empty: by the kind's option and the name
    """

    name: str
    kind: Kind
    checkpoints: tuple[Path, ...]
    given: str = ""

    @property
    def label(self) -> str:
        """Its name in messages."""
        return self.given or f"{self.kind.value} {self.name}"

    def languages(self, data: Path, reverse: bool) -> tuple[str, str]:
        """Return source and target of the models for translations of the data, `reverse` in the other direction."""
        return data_settings(data, reverse != (self.kind is Kind.REVERSE)).languages

    def check(self, data: Path, reverse: bool, inline: bool = False) -> None:
        """Raise `UserError` if a checkpoint does not fit translations of the data.

        They are of the other direction with `reverse`, and made with a glossary with `inline`.
        """
        for path in self.checkpoints:
            if self.kind is Kind.LANGUAGE:
                check_language_model(path, data, data_settings(data, reverse).target_lang)
            else:
                check_model(path, data, self.languages(data, reverse), named=f"{self.label}: ")
            if inline and self.kind is Kind.TRANSLATION:
                check_inline_targets(path)

    def records(self) -> list[Mapping[str, Any]]:
        """Return the checkpoints' records of their training pairs."""
        return [CheckpointState.of(path, numbers=False).task_state() for path in self.checkpoints]


class Scorer:
    """Scores pairs of subwords by a feature's models; with `reverse`, translations are of the other direction."""

    def __init__(self, feature: ModelFeature, data: Path, reverse: bool) -> None:
        self.feature = feature
        languages = feature.languages(data, reverse)
        self.loaded = load_models(feature.checkpoints, data, languages, feature.kind is Kind.LANGUAGE)
        self.target = self.loaded.target
        self.scorer = SequenceScorer(self.target)

    def __call__(self, pairs: Pairs, max_tokens: int, done: Callable[[int], object]) -> list[float]:
        """Return log P of each pair of source and target, in batches of at most `max_tokens`, padding included.

        Args:
            pairs: source and target of the models
            max_tokens: of a batch
            done: receives the number of pairs in each batch

        Raises:
            UserError: a pair is longer than the models' positions
        """
        encoded = [self._encoded(index, *pair) for index, pair in enumerate(pairs)]
        lengths = ([len(pair[side]) for pair in encoded] for side in ("source", "target"))
        self.loaded.check_lengths(self.feature.label, *lengths)
        order = sorted(range(len(pairs)), key=lambda index: _size(encoded[index]))
        result = [0.0] * len(pairs)
        batch: list[int] = []
        for position, index in enumerate(order):
            batch.append(index)
            following = order[position + 1 : position + 2]
            if not following or (len(batch) + 1) * _size(encoded[following[0]]) > max_tokens:
                for number, score in zip(batch, self._scores([encoded[each] for each in batch])):
                    result[number] = score
                done(len(batch))
                batch = []
        return result

    def _encoded(self, index: int, source: str, target: str) -> dict[str, Any]:
        """Return a pair as an entry of fairseq's batches."""
        tokens = encode(self.target, target)
        if self.loaded.right_to_left:
            tokens = torch.cat([tokens[:-1].flip(0), tokens[-1:]])
        return {"id": index, "source": encode(self.loaded.source, source), "target": tokens}

    def _scores(self, pairs: list[dict[str, Any]]) -> list[float]:
        """Return log P of the pairs of a batch."""
        batch = collate(pairs, self.target.pad(), self.target.eos(), input_feeding=True)
        if self.loaded.cuda:
            batch = utils.move_to_cuda(batch)
        if self.feature.kind is Kind.LANGUAGE:
            before: Tensor = batch["net_input"]["prev_output_tokens"]
            batch["net_input"] = {"src_tokens": before, "src_lengths": before.ne(self.target.pad()).sum(1)}
        found = self.scorer.generate(self.loaded.models, batch)
        # Batches are sorted by the lengths of their sources.
        scores = {
            number: float(each["positional_scores"].double().sum())
            for number, (each,) in zip(batch["id"].tolist(), found)
        }
        return [scores[pair["id"]] for pair in pairs]


def _size(pair: dict[str, Any]) -> int:
    return max(len(pair["source"]), len(pair["target"]))


def add_model_features(
    lists: MergedLists, features: Sequence[ModelFeature], data: Path, out: Path, max_tokens: int
) -> None:
    """Score all candidates by each model, and keep its scores in a file of OUT, or reuse earlier ones."""
    sources, read = source_subwords(data, lists.subset, lists.reverse), read_subwords(data, lists)
    for feature in features:
        pairs = _pairs(feature, lists, read if feature.kind is Kind.TRANSLATION else sources)
        facts = [feature.kind.value, pairs, [whole_text(data / f"dict.{x}.txt") for x in languages(data, lists)]]
        path, key = out / FOLDER / f"{feature.name}.json", digest(feature.checkpoints, facts)
        scores = kept(path, key)
        if scores is None:
            scorer = Scorer(feature, data, lists.reverse)
            # An unwritable place is reported before the work, and a faulty model leaves no folder behind.
            path.parent.mkdir(parents=True, exist_ok=True)
            with console.progress(len(pairs), f"scoring by {feature.name}", " translations") as bar:
                scores = scorer(pairs, max_tokens, bar.update)
            keep(path, key, scores)
        values = iter(scores)
        for candidates in lists.candidates:
            for candidate in candidates:
                candidate.features[feature.name] = next(values)


def languages(data: Path, lists: MergedLists) -> tuple[str, str]:
    """Return source and target of the translations."""
    return data_settings(data, lists.reverse).languages


def source_subwords(data: Path, subset: str, reverse: bool) -> list[str]:
    """Return the sources of a subset as subwords. Raises `UserError` if the data folder lacks their text."""
    path = data / "text" / f"{subset}.bpe.{data_settings(data, reverse).source_lang}"
    if not path.is_file():
        raise UserError(f"{path}: no such file; {data} must be a whole folder made by deepnmt preprocess")
    return lines_of(path)


def read_subwords(data: Path, lists: MergedLists) -> list[str]:
    """Return the input for models of the translations: the sources as subwords, with a glossary's translations."""
    return lists.read or source_subwords(data, lists.subset, lists.reverse)


def _pairs(feature: ModelFeature, lists: MergedLists, sources: Sequence[str]) -> Pairs:
    """Return source and target of the model for all candidates; a language model has no source."""
    pairs = []
    for source, candidates in zip(sources, lists.candidates):
        for candidate in candidates:
            if feature.kind is Kind.REVERSE:
                pairs.append((candidate.subwords, source))
            else:
                pairs.append(("" if feature.kind is Kind.LANGUAGE else source, candidate.subwords))
    return pairs
