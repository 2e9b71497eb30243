"""What is learnt from a sample of the corpus before its chunks are measured: spreads, models, perhaps a classifier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

import numpy as np
from numpy.typing import NDArray

from deepnmt.cleaning.character_model import CharacterModel
from deepnmt.cleaning.clean_job import Job
from deepnmt.cleaning.corpus_index import sample_of
from deepnmt.cleaning.pair_chunk import Pairs
from deepnmt.cleaning.pair_classifier import PairClassifier, train
from deepnmt.cleaning.pair_lexicon import PairLexicon
from deepnmt.cleaning.pair_measures import NOTHING, Fitted, Spread, measured
from deepnmt.console import whole_file
from deepnmt.ngram import arpa

FITTED_ON, TRAINED_ON = 50_000, 30_000  # pairs
FITTED, CLASSIFIER = "fitted.npz", "classifier.json"
LEARNING = ("ratio-sigma", "characters", "language")
TABLES = ("singles", "pairs", "triples")  # of a character model


@dataclass(frozen=True)
class Learnt:
    """What is learnt, and what was given.

    Attributes:
        fitted: what the measures need
        classifier: of pairs; None where there is none
    """

    fitted: Fitted
    classifier: Optional[PairClassifier] = None

    @classmethod
    def of(cls, job: Job, folder: Path) -> Learnt:
        """Return what a job's pairs are measured by: what is in the folder of its work, or is learnt and put there."""
        options = job.options
        if not (options.classifies or options.scores or any(each.name in LEARNING for each in options.filters)):
            return cls(_from_files(job))
        # Files first: where one is faulty, no work is begun.
        given = _from_files(job)
        classifier = None
        if options.classifier:
            path = Path(options.classifier)
            classifier = PairClassifier.read(path, options.languages)
            classifier.check(path, given)
        if not (folder / FITTED).exists():
            write_fitted(folder / FITTED, Fitted.of(sample(job, FITTED_ON)))
        learnt = read_fitted(folder / FITTED)
        fitted = replace(learnt, lexicon=given.lexicon, language_models=given.language_models)
        if options.train_classifier:
            if not (folder / CLASSIFIER).exists():
                made = train(passing(job, sample(job, TRAINED_ON), fitted), fitted, options.seed)
                made.write(folder / CLASSIFIER, options.languages)
            classifier = PairClassifier.read(folder / CLASSIFIER, options.languages)
        return cls(fitted, classifier)


def _from_files(job: Job) -> Fitted:
    """Return what measures need of files that other commands have made."""
    fitted = NOTHING
    if job.options.lexicon:
        fitted = replace(fitted, lexicon=PairLexicon.read(Path(job.options.lexicon)))
    if job.options.language_models:
        source, target = (arpa.read(Path(path)) for path in job.options.language_models)
        fitted = replace(fitted, language_models=(source, target))
    return fitted


def read_pairs(job: Job, chunk: int) -> Pairs:
    """Return the pairs of a chunk. Raises `UserError` with the number of a line that is not UTF-8."""
    source, target = (job.files[side].read_text(chunk) for side in ("source", "target"))
    return Pairs(source, target, job.options.languages)


def sample(job: Job, most: int) -> Pairs:
    """Return pairs of evenly spaced chunks."""
    chunks = [read_pairs(job, chunk) for chunk in sample_of(job.chunks, job.options.chunk, most)]
    lines = [[line for pairs in chunks for line in pairs.sides[side].lines] for side in (0, 1)]
    return Pairs(lines[0], lines[1], job.options.languages)


def passing(job: Job, pairs: Pairs, fitted: Fitted) -> Pairs:
    """Return those pairs that pass all filters that measure them."""
    good = np.ones(len(pairs), dtype=bool)
    for each in job.options.filters:
        if each.measures:
            values = measured(each.name, pairs, fitted)
            good &= ((values >= each.low) & (values <= each.high)).all(axis=1)
    lines = [[line for line, there in zip(side.lines, good) if there] for side in pairs.sides]
    return Pairs(lines[0], lines[1], job.options.languages)


def write_fitted(path: Path, fitted: Fitted) -> None:
    """Write what measures have learnt, but for lexicons, which have files of their own."""
    numbers = [fitted.ratio.middle, fitted.ratio.sigma]
    arrays: dict[str, NDArray[np.generic]] = {}
    for side, model in enumerate(fitted.characters):
        numbers += [model.middle, model.sigma]
        arrays |= {f"{name} {side}": getattr(model, name) for name in TABLES}
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, numbers=np.array(numbers), **arrays)  # type: ignore[arg-type]


def read_fitted(path: Path) -> Fitted:
    """Return what `write_fitted` has written."""
    with np.load(path) as arrays:
        numbers = arrays["numbers"].tolist()
        models = [
            CharacterModel(*(arrays[f"{name} {side}"] for name in TABLES), *numbers[2 + 2 * side : 4 + 2 * side])
            for side in (0, 1)
        ]
    return Fitted(Spread(*numbers[:2]), (models[0], models[1]))
