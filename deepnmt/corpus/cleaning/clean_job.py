"""The request to `deepnmt clean`, and the index of the files that it reads."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Optional

from deepnmt.corpus.alignment.align_job import LEXICONS
from deepnmt.corpus.cleaning.corpus_index import FileIndex, Header, ScoreColumn
from deepnmt.corpus.cleaning.filter_recipe import Filter, split_column
from deepnmt.corpus.cleaning.filters import KINDS
from deepnmt.corpus.cleaning.pair_lexicon import check_folder
from deepnmt.corpus.cleaning.writing_systems import LANGUAGES, knows
from deepnmt.errors import UserError
from deepnmt.text.languages import language_fault
from deepnmt.text.record import sha256

# The needs of filters, in words.
NEEDED = {
    "lexicon": "a folder made by deepnmt align --raw --lexicon",
    "language_models": "two files made by deepnmt ngram train --raw",
}


@dataclass(frozen=True)
class Best:
    """The number of pairs to keep, or their share of the pairs that pass the filters."""

    text: str

    def check(self) -> None:
        """Raise `UserError` if it is neither a number nor a share."""
        try:
            right = 0 < float(self.text) <= 1 if "." in self.text else int(self.text) >= 1
        except ValueError:
            right = False
        if not right:
            raise UserError(f"--keep-best must be a number of pairs, or a share such as 0.9, but is '{self.text}'")

    def of(self, pairs: int) -> int:
        """Return how many of some pairs are kept."""
        return min(pairs, max(round(float(self.text) * pairs), 1) if "." in self.text else int(self.text))


@dataclass(frozen=True)
class Options:
    """The options that decide which pairs are kept; `CleanJob` has the places of the corpus.

    Attributes:
        filters: filters in their order of use
        chunk: number of pairs that a process measures at a time
        lexicon: folder of lexicons; empty: no lexicons
        language_models: ARPA files of source and target; empty: no models
        classifier: file of a classifier; empty: no classifier
        rank_by: file of scores, perhaps with a column; empty: no file
        keep_best: number or share of the pairs that pass the filters; empty: all
        keep_unseen: least count of a word in the kept pairs, if the input has it as often
        seed: seed of the faults that a classifier learns
        scores: file for the measures of all pairs; empty: no file
    """

    source_lang: str
    target_lang: str
    filters: tuple[Filter, ...]
    chunk: int = 20_000
    lexicon: str = ""
    language_models: tuple[str, ...] = ()
    classifier: str = ""
    train_classifier: bool = False
    rank_by: str = ""
    keep_best: str = ""
    keep_unseen: int = 0
    seed: int = 1
    scores: str = ""

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_lang, self.target_lang

    @property
    def classifies(self) -> bool:
        """Return whether a classifier scores the pairs."""
        return bool(self.classifier) or self.train_classifier

    def check(self) -> None:
        """Raise `UserError` that names invalid options and combinations."""
        if faults := [*self._language_faults(), *self._ranking_faults()]:
            raise UserError(*faults)
        if self.train_classifier:
            import sklearn  # noqa: F401  where it is missing, says so before the corpus is read
        if self.keep_best:
            Best(self.keep_best).check()
        if self.lexicon:
            check_folder(Path(self.lexicon))

    def score_files(self) -> dict[str, list[str]]:
        """Return the names of the files of scores, and the columns that are wanted of each."""
        wanted = [(each.file, each.column) for each in self.filters if each.file]
        wanted += [split_column(self.rank_by)] if self.rank_by else []
        return {file: [column for name, column in wanted if name == file] for file, _ in wanted}

    def paths(self, prefix: str) -> list[Path]:
        """Return the paths of all files that have a line for each pair."""
        return [*(Path(f"{prefix}.{language}") for language in self.languages), *map(Path, self.score_files())]

    def _language_faults(self) -> Iterator[str]:
        for side, language in zip(("source", "target"), self.languages):
            if fault := language_fault(language):
                yield f"--{side}-lang {fault}"
            if any(each.name == "script" for each in self.filters) and not knows(language):
                yield f"script: the language must be one of {', '.join(sorted(LANGUAGES))}, but is {language}"
        if self.source_lang == self.target_lang:
            yield f"--source-lang and --target-lang must differ, but both are '{self.source_lang}'"

    def _ranking_faults(self) -> Iterator[str]:
        if not (self.filters or self.keep_best or self.scores):
            yield "a filter must be given, as an option or in a --recipe, but there is none (see --help)"
        filters = {each.name for each in self.filters}
        for needed, made_by in NEEDED.items():
            option = f"--{needed.replace('_', '-')}"
            names = [name for name, kind in KINDS.items() if kind.needs == needed]
            for name in names:
                if name in filters and not getattr(self, needed):
                    yield f"{name} must be given with {option}, {made_by}"
            if getattr(self, needed) and not (self.classifies or self.scores or filters.intersection(names)):
                which = ", ".join(f"--{name}" for name in (*names, "score", "classifier"))
                yield f"{option} must be given with {which} or --train-classifier, but there is none of them"
        if self.language_models and len(self.language_models) != 2:
            yield f"--language-models must be 2 files, of source and target, but is {len(self.language_models)}"
        given = {"classifier": self.classifier, "train-classifier": self.train_classifier, "rank-by": self.rank_by}
        names = [f"--{name}" for name, value in given.items() if value]
        if len(names) > 1:
            yield f"{names[0]} must not be given with {names[1]}: pairs have one score"
        if self.keep_best and not names:
            yield "--keep-best must be given with --train-classifier, --classifier or --rank-by, which score the pairs"
        if self.classifier and not (self.keep_best or self.scores):
            yield "--classifier must be given with --keep-best or --score, but there is neither"
        if self.rank_by and not self.keep_best:
            yield "--rank-by must be given with --keep-best"
        if self.keep_unseen and not self.keep_best:
            yield "--keep-unseen must be given with --keep-best, which leaves pairs out"
        if self.seed != Options.seed and not self.train_classifier:
            yield "--seed needs --train-classifier"


@dataclass(frozen=True)
class CleanJob:
    """Options, and the files: source, target, and files of scores, by name (`_key`)."""

    options: Options
    files: dict[str, FileIndex] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Options, prefix: str, tell: Callable[[int], object]) -> "CleanJob":
        """Return the job with the index of all its files; `tell` is called with the bytes of each block that was read.

        Raises `UserError` if a file is missing, or files differ in their lines.
        """
        job = cls(options)
        for side, language in zip(("source", "target"), options.languages):
            job.files[side] = FileIndex.of(Path(f"{prefix}.{language}"), options.chunk, tell=tell)
        for file, columns in options.score_files().items():
            header = Header.of(Path(file))
            for column in columns:
                header.place(Path(file), column)
            job.files[_key(file)] = FileIndex.of(Path(file), options.chunk, header.lines, tell)
        source = job.files["source"]
        for other in job.files.values():
            if other.lines != source.lines:
                raise UserError(
                    f"{source.path} has {source.lines} lines, but {other.path} has {other.lines}: "
                    "line n of both must be one pair"
                )
        return job

    def column(self, file: str, column: str) -> ScoreColumn:
        """Return a column of scores."""
        return ScoreColumn(self.files[_key(file)], Header.of(Path(file)).place(Path(file), column))

    @property
    def ranking(self) -> Optional[ScoreColumn]:
        """The column of `rank_by`."""
        return self.column(*split_column(self.options.rank_by)) if self.options.rank_by else None

    @property
    def pairs(self) -> int:
        """How many pairs the corpus has."""
        return self.files["source"].lines

    @property
    def chunks(self) -> int:
        """How many chunks the corpus has."""
        return self.files["source"].chunks

    def record(self) -> dict[str, Any]:
        """Return the facts that determine the result: the options, and the checksums of the files."""
        filters = [each.label for each in self.options.filters]
        inputs = {name: index.sha256 for name, index in self.files.items()}
        lexicons = [Path(self.options.lexicon) / name for name in LEXICONS] if self.options.lexicon else []
        others = [*self.options.language_models, *([self.options.classifier] if self.options.classifier else [])]
        for path in [*lexicons, *map(Path, others)]:
            inputs[str(path)] = sha256(path)
        models = list(self.options.language_models)
        return {**asdict(self.options), "filters": filters, "language_models": models, "inputs": inputs}


def _key(file: str) -> str:
    """Return the name of a file of scores in `CleanJob.files`, which the corpus's sides do not have."""
    return f"./{file}" if file in ("source", "target") else file
