"""Whether an exported model agrees with its checkpoints: checked before the export counts as done.

    float32     log-probabilities of validation pairs, targets given, within 1e-4; at most 1 % of translations differ
    others      BLEU of both on the same pairs: at most 1.0 lost
    shortlists  log-probabilities as in float32, over all types; in place of the translations, BLEU

The torch engine runs the checkpoints in float32 on the CPU.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepnmt.console import progress
from deepnmt.engines.engine import Engine, Hypothesis, SearchSettings
from deepnmt.errors import UserError
from deepnmt.text.languages import bleu_tokenizer
from deepnmt.text.lines import check_parallel, read_text
from deepnmt.text.pipeline import TextPipeline

LARGEST_DIFFERENCE = 1e-4
MOST_DIFFERING = 0.01
MOST_LOST = 1.0
BATCH = 32
SUBSET = "valid"


@dataclass(frozen=True)
class Pairs:
    """Sentences in subwords and their translations."""

    sources: list[list[str]]
    targets: list[list[str]]

    def chosen(self, number: int, longest: tuple[int, int]) -> Pairs:
        """Return at most `number` pairs, evenly spaced, of at most `longest` subwords on each side.

        Raises:
            UserError: no pair is short enough
        """
        pairs = zip(self.sources, self.targets)
        fitting = [pair for pair in pairs if all(0 < len(each) <= most for each, most in zip(pair, longest))]
        if not fitting:
            raise UserError(f"{SUBSET}.bpe.*: no pair of at most {longest[0]} and {longest[1]} subwords found")
        count = min(number, len(fitting))
        spaced = [fitting[index * len(fitting) // count] for index in range(count)]
        return Pairs([source for source, _ in spaced], [target for _, target in spaced])


@dataclass(frozen=True)
class Coverage:
    """Shortlists beside the checkpoints' translations.

    Attributes:
        types: on a list, in the mean
        subwords: share of the translations' subwords that are on the lists of their sentences
        sentences: share of the translations whose subwords all are
    """

    types: float
    subwords: float
    sentences: float

    @classmethod
    def of(cls, lists: Sequence[Set[str]], translations: Sequence[Sequence[str]]) -> Coverage:
        """Return the coverage of translations by the lists of their sentences."""
        missing = [sum(word not in on for word in words) for on, words in zip(lists, translations)]
        subwords = max(1, sum(map(len, translations)))
        return cls(sum(map(len, lists)) / len(lists), 1 - sum(missing) / subwords, missing.count(0) / len(missing))

    def __str__(self) -> str:
        return (
            f"; shortlists have {self.types:.0f} types, and cover {self.subwords:.1%} of the checkpoints' subwords, "
            f"{self.sentences:.1%} of their translations completely"
        )


@dataclass(frozen=True)
class Result:
    """The result of a check.

    Attributes:
        pairs: number of compared pairs
        difference: the largest difference of a log-probability
        differing: share of the translations that differ
        bleu: of the exported model
        bleu_before: of the checkpoints
        coverage: of shortlists; None for a model without any
    """

    pairs: int
    difference: float
    differing: float
    bleu: float
    bleu_before: float
    coverage: Coverage | None = None

    def faults(self, exact: bool, allow_loss: bool = False) -> Iterator[str]:
        """Yield reasons why the export must not count; `exact` is for float32, and `allow_loss` permits lost BLEU."""
        # A difference that is not a number counts as large.
        if exact and not self.difference <= LARGEST_DIFFERENCE:
            yield (
                f"log-probabilities must agree with the checkpoints' within {LARGEST_DIFFERENCE:g}, "
                f"but differ by up to {self.difference:.2g}"
            )
        if exact and self.coverage is None:
            if self.differing > MOST_DIFFERING:
                yield f"at most {MOST_DIFFERING:.0%} of translations may differ, but {self.differing:.1%} do"
        elif not allow_loss and not self.bleu_before - self.bleu <= MOST_LOST:
            yield (
                f"at most {MOST_LOST:.1f} BLEU may be lost, but {self.bleu:.2f} is left of {self.bleu_before:.2f} "
                "(--allow-loss exports the model all the same)"
            )

    def as_record(self) -> dict[str, Any]:
        """Return the result for model.json."""
        return {
            "pairs": self.pairs,
            "largest_difference": float(f"{self.difference:.3g}") if math.isfinite(self.difference) else None,
            "differing_translations": round(self.differing, 4),
            "bleu": round(self.bleu, 2),
            "bleu_of_checkpoints": round(self.bleu_before, 2),
            **({"shortlists": dataclasses.asdict(self.coverage)} if self.coverage else {}),
        }

    def __str__(self) -> str:
        return (
            f"{self.pairs} pairs: log-probabilities differ by up to {self.difference:.1g}, {self.differing:.1%} of "
            f"translations differ, BLEU is {self.bleu:.2f} (checkpoints: {self.bleu_before:.2f})"
            f"{self.coverage or ''}"
        )


def read_pairs(data: Path, languages: tuple[str, str]) -> Pairs:
    """Return the validation set of a data folder. Raises `UserError` if its text is missing, or the sides differ."""
    paths = [data / "text" / f"{SUBSET}.bpe.{language}" for language in languages]
    for path in paths:
        if not path.is_file():
            raise UserError(f"{path}: no such file, but --check needs it (--check 0 exports without a check)")
    check_parallel(paths)
    return Pairs(*([line.split() for line in read_text(path)] for path in paths))


def compare(
    reference: Engine,
    exported: Engine,
    pairs: Pairs,
    pipeline: TextPipeline,
    search: SearchSettings,
    listed: Callable[[Sequence[str]], Set[str]] | None = None,
) -> Result:
    """Return the distance of an exported model from its checkpoints.

    Args:
        reference: computes with the checkpoints
        exported: computes with the model folder
        pairs: to score and to translate
        pipeline: turns target subwords into text
        search: its settings
        listed: returns the types on the shortlist of a source; None for a model without shortlists
    """
    difference, before, after = 0.0, [], []
    with progress(len(pairs.sources), "checking", " sentences") as bar:
        for start in range(0, len(pairs.sources), BATCH):
            sources, targets = (side[start : start + BATCH] for side in (pairs.sources, pairs.targets))
            scores = zip(reference.score(sources, targets), exported.score(sources, targets))
            difference = max(difference, *(_difference(one, other) for one, other in scores))
            before += [_best(found) for found in reference.search(sources, search)]
            after += [_best(found) for found in exported.search(sources, search)]
            bar.update(len(sources))
    texts = [[pipeline.decode(" ".join(tokens)) for tokens in side] for side in (before, after, pairs.targets)]
    differing = sum(one != other for one, other in zip(before, after)) / len(before)
    language = pipeline.settings.target_lang
    scores_after, scores_before = (_bleu(texts[side], texts[2], language) for side in (1, 0))
    coverage = None if listed is None else Coverage.of(list(map(listed, pairs.sources)), before)
    return Result(len(before), difference, differing, scores_after, scores_before, coverage)


def _difference(one: Sequence[float], other: Sequence[float]) -> float:
    if len(one) != len(other):
        return math.inf
    differences = [abs(a - b) for a, b in zip(one, other)]
    # Given NaN and a number, `max` may return either.
    return math.inf if any(math.isnan(value) for value in differences) else max(differences)


def _best(hypotheses: Iterable[Hypothesis]) -> list[str]:
    return next(iter(hypotheses)).tokens


def _bleu(translations: list[str], references: list[str], language: str) -> float:
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU(tokenize=bleu_tokenizer(language)).corpus_score(translations, [references]).score)
