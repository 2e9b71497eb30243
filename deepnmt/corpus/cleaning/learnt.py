"""Learning from a sample of the corpus before its chunks are measured: spreads, models, perhaps a classifier."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deepnmt.console import progress, whole_file
from deepnmt.corpus.cleaning.character_model import CharacterModel
from deepnmt.corpus.cleaning.clean_job import CleanJob
from deepnmt.corpus.cleaning.filters import KINDS
from deepnmt.corpus.cleaning.pair_chunk import Pairs
from deepnmt.corpus.cleaning.pair_classifier import PairClassifier, train
from deepnmt.corpus.cleaning.pair_lexicon import PairLexicon
from deepnmt.corpus.cleaning.pair_measures import NOTHING, Fitted, Spread, measured
from deepnmt.corpus.ngram import arpa
from deepnmt.text.words import spread

FITTED_ON, TRAINED_ON = 50_000, 30_000  # pairs
FITTED, CLASSIFIER = "fitted.npz", "classifier.json"
TABLES = ("singles", "pairs", "triples")  # of a character model
ScoredPair = tuple[str, str, bool]


@dataclass(frozen=True)
class Learnt:
    """Learnt and given values."""

    fitted: Fitted
    classifier: PairClassifier | None = None

    @classmethod
    def of(cls, job: CleanJob, folder: Path) -> "Learnt":
        """Return the values that measure a job's pairs, read from the folder of its work or learnt and put there."""
        options = job.options
        learning = any(KINDS[each.name].learnt for each in options.filters)
        if not (options.classifies or options.scores or learning):
            return cls(_from_files(job))
        # Files first: where one is faulty, no work is begun.
        given = _from_files(job)
        classifier = None
        if options.classifier:
            path = Path(options.classifier)
            classifier = PairClassifier.read(path, options.languages)
            classifier.check(path, given)
        trains = options.train_classifier and not (folder / CLASSIFIER).exists()
        drawn = None
        if trains or not (folder / FITTED).exists():
            drawn = Sample.of(job, FITTED_ON)
        if drawn and not (folder / FITTED).exists():
            write_fitted(folder / FITTED, Fitted.of(drawn.pairs))
        learnt = read_fitted(folder / FITTED)
        fitted = replace(learnt, lexicon=given.lexicon, language_models=given.language_models)
        if options.train_classifier:
            if drawn and trains:
                made = train(passing(job, drawn.spread(TRAINED_ON), fitted), fitted, options.seed)
                made.write(folder / CLASSIFIER, options.languages)
            classifier = PairClassifier.read(folder / CLASSIFIER, options.languages)
        return cls(fitted, classifier)


def _from_files(job: CleanJob) -> Fitted:
    """Return the measures' needs from files that other commands have made."""
    fitted = NOTHING
    if job.options.lexicon:
        fitted = replace(fitted, lexicon=PairLexicon.read(Path(job.options.lexicon)))
    if job.options.language_models:
        source, target = (arpa.read(Path(path)) for path in job.options.language_models)
        fitted = replace(fitted, language_models=(source, target))
    return fitted


def read_pairs(job: CleanJob, chunk: int) -> Pairs:
    """Return the pairs of a chunk. Raises `UserError` with the number of a line that is not UTF-8."""
    source, target = (job.files[side].read_text(chunk) for side in ("source", "target"))
    return Pairs(source, target, job.options.languages)


@dataclass(frozen=True)
class Sample:
    """Pairs of all parts of a corpus, and whether each passes the filters by scores in files."""

    pairs: Pairs
    well_scored: tuple[bool, ...]

    @classmethod
    def of(cls, job: CleanJob, most: int) -> "Sample":
        """Return pairs that are evenly spread over the corpus, however it is cut into chunks."""
        with progress(job.pairs, "taking a sample", " pairs") as bar:
            return cls._of(spread(_scored_pairs(job, bar.update), most, job.pairs), job.options.languages)

    @classmethod
    def _of(cls, drawn: Iterable[ScoredPair], languages: tuple[str, str]) -> "Sample":
        rows = list(drawn)
        return cls(Pairs([row[0] for row in rows], [row[1] for row in rows], languages), tuple(row[2] for row in rows))

    def spread(self, most: int) -> "Sample":
        """Return at most `most` of the pairs, evenly spread over them."""
        rows = zip(self.pairs.source.lines, self.pairs.target.lines, self.well_scored)
        languages = (self.pairs.source.language, self.pairs.target.language)
        return self._of(spread(rows, most, len(self.pairs)), languages)


def _scored_pairs(job: CleanJob, tell: Callable[[int], object]) -> Iterator[ScoredPair]:
    scored = [(each, job.column(each.file, each.column)) for each in job.options.filters if each.file]
    for chunk in range(job.chunks):
        pairs = read_pairs(job, chunk)
        good = np.ones(len(pairs), dtype=bool)
        for each, column in scored:
            values = column.read(chunk)
            good &= (values >= each.low) & (values <= each.high)
        yield from zip(pairs.source.lines, pairs.target.lines, good.tolist())
        tell(len(pairs))


def passing(job: CleanJob, sample: Sample, fitted: Fitted) -> Pairs:
    """Return those pairs of a sample that pass all filters that look at a pair by itself."""
    pairs, good = sample.pairs, np.array(sample.well_scored, dtype=bool)
    for each in job.options.filters:
        if each.measures:
            values = measured(each.name, pairs, fitted)
            good &= ((values >= each.low) & (values <= each.high)).all(axis=1)
    lines = [[line for line, there in zip(side.lines, good) if there] for side in pairs.sides]
    return Pairs(lines[0], lines[1], job.options.languages)


def write_fitted(path: Path, fitted: Fitted) -> None:
    """Write the learnt values of measures, except lexicons, which have files of their own."""
    numbers = [fitted.ratio.middle, fitted.ratio.sigma]
    arrays: dict[str, NDArray[np.generic]] = {}
    for side, model in enumerate(fitted.characters):
        numbers += [model.middle, model.sigma]
        arrays |= {f"{name} {side}": getattr(model, name) for name in TABLES}
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, numbers=np.array(numbers), **arrays)  # type: ignore[arg-type]


def read_fitted(path: Path) -> Fitted:
    """Return the values that `write_fitted` has written."""
    with np.load(path) as arrays:
        numbers = arrays["numbers"].tolist()
        models = [
            CharacterModel(*(arrays[f"{name} {side}"] for name in TABLES), *numbers[2 + 2 * side : 4 + 2 * side])
            for side in (0, 1)
        ]
    return Fitted(Spread(*numbers[:2]), (models[0], models[1]))
