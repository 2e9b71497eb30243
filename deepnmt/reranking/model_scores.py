"""log P of given translations by models: of the translation, of the source from it, or by a language model.

A pair has the sum of log P over its tokens, the end symbol included, in nats, by fairseq's `SequenceScorer`. Models
that were trained right to left get their targets reversed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data.language_pair_dataset import collate
from fairseq.sequence_scorer import SequenceScorer
from torch import Tensor

from deepnmt.checkpoints.data_fit import check_inline_targets, check_language_model, check_model
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.reranking.loaded_models import encode, load_models
from deepnmt.text.translated_folder import data_settings

Pairs = Sequence[tuple[str, str]]


class Kind(Enum):
    """What a model says; the value is the option that names it."""

    TRANSLATION = "--score"
    REVERSE = "--reverse"
    LANGUAGE = "--lm"


@dataclass(frozen=True)
class ModelFeature:
    """A feature that models give.

    Attributes:
        name: of the feature
        kind: what is scored
        checkpoints: one, or an ensemble by its mean probability
        given: how the command line names it; empty: by the kind's option and the name
    """

    name: str
    kind: Kind
    checkpoints: tuple[Path, ...]
    given: str = ""

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.given or f"{self.kind.value} {self.name}"

    def languages(self, data: Path, reverse: bool) -> tuple[str, str]:
        """Return source and target of the models, for translations of the data, `reverse` in the other direction."""
        return data_settings(data, reverse != (self.kind is Kind.REVERSE)).languages

    def check(self, data: Path, reverse: bool, inline: bool = False) -> None:
        """Raise `UserError` if a checkpoint does not fit translations of the data.

        Args:
            data: the data folder
            reverse: the translations are of the other direction
            inline: they were made with a glossary
        """
        for path in self.checkpoints:
            if self.kind is Kind.LANGUAGE:
                target = data_settings(data, reverse).target_lang
                check_language_model(path, data / f"dict.{target}.txt")
            else:
                check_model(path, data, self.languages(data, reverse), named=f"{self.label}: ")
            if inline and self.kind is Kind.TRANSLATION:
                check_inline_targets(path)

    def records(self) -> list[Mapping[str, Any]]:
        """Return what the checkpoints say of their training pairs."""
        return [CheckpointState.of(path, numbers=False).task_state() for path in self.checkpoints]


class Scorer:
    """Scores pairs of subwords by the models of a feature.

    Args:
        feature: what to score by
        data: has the dictionaries
        reverse: the translations are of the other direction
    """

    def __init__(self, feature: ModelFeature, data: Path, reverse: bool) -> None:
        self.feature = feature
        languages = feature.languages(data, reverse)
        self.loaded = load_models(feature.checkpoints, data, languages, feature.kind is Kind.LANGUAGE)
        self.target = self.loaded.target
        self.scorer = SequenceScorer(self.target)

    def __call__(self, pairs: Pairs, max_tokens: int, done: Callable[[int], object]) -> list[float]:
        """Return log P of each pair.

        Args:
            pairs: source and target of the models
            max_tokens: of a batch, padding included
            done: is told how many pairs each batch has

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
