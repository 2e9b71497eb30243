"""What clean.sh was asked for, and the index of the files that it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from deepnmt.cleaning.corpus_index import FileIndex
from deepnmt.cleaning.filter_recipe import Filter
from deepnmt.cleaning.score_file import Header, ScoreColumn
from deepnmt.cleaning.writing_systems import LANGUAGES, knows
from deepnmt.errors import UserError


@dataclass(frozen=True)
class Options:
    """The options that decide what is kept; where it is read from is in `Job`.

    Attributes:
        source_lang: language of the source
        target_lang: language of the target
        filters: in the order in which a pair meets them
        chunk: pairs that a process measures at a time
    """

    source_lang: str
    target_lang: str
    filters: tuple[Filter, ...]
    chunk: int = 20_000

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_lang, self.target_lang

    def check(self) -> None:
        """Raise `UserError` naming what does not fit."""
        for side, language in zip(("source", "target"), self.languages):
            if not language or any(sign in "/\x00" or sign.isspace() for sign in language):
                raise UserError(f"--{side}-lang must be a language such as de, but is '{language}'")
            if any(each.name == "script" for each in self.filters) and not knows(language):
                raise UserError(
                    f"script: the language must be one of {', '.join(sorted(LANGUAGES))}, but is {language}"
                )
        if self.source_lang == self.target_lang:
            raise UserError(f"--source-lang and --target-lang must differ, but both are '{self.source_lang}'")
        if not self.filters:
            raise UserError("a filter must be given, as an option or in a --recipe, but there is none (see --help)")


@dataclass(frozen=True)
class Job:
    """Options, and the files.

    Attributes:
        options: see there
        files: source, target, and files of scores, by name
    """

    options: Options
    files: dict[str, FileIndex] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Options, prefix: str, tell: Callable[[int], object]) -> Job:
        """Return the job with the index of all its files.

        Args:
            options: that were given
            prefix: of the corpus
            tell: called with the bytes of each block that was read

        Raises:
            UserError: a file is missing, or files differ in their lines
        """
        job = cls(options)
        for side, language in zip(("source", "target"), options.languages):
            job.files[side] = FileIndex.of(Path(f"{prefix}.{language}"), options.chunk, tell=tell)
        for name in job.score_files():
            header = Header.of(Path(name))
            for column in (each.column for each in options.filters if each.file == name):
                header.place(Path(name), column)
            job.files[name] = FileIndex.of(Path(name), options.chunk, header.lines, tell)
        source = job.files["source"]
        for other in job.files.values():
            if other.lines != source.lines:
                raise UserError(
                    f"{source.path} has {source.lines} lines, but {other.path} has {other.lines}: "
                    "line n of both must be one pair"
                )
        return job

    def score_files(self) -> list[str]:
        """Return the names of the files of scores."""
        return list(dict.fromkeys(each.file for each in self.options.filters if each.file))

    def paths(self, prefix: str) -> list[Path]:
        """Return the paths of all files that will be read."""
        languages = self.options.languages
        return [*(Path(f"{prefix}.{language}") for language in languages), *map(Path, self.score_files())]

    def column(self, file: str, column: str) -> ScoreColumn:
        """Return a column of scores."""
        return ScoreColumn(self.files[file], Header.of(Path(file)).place(Path(file), column))

    @property
    def pairs(self) -> int:
        """How many pairs the corpus has."""
        return self.files["source"].lines

    @property
    def chunks(self) -> int:
        """How many chunks the corpus has."""
        return self.files["source"].chunks

    def record(self) -> dict[str, Any]:
        """Return what decides the result: the options, and the checksums of the files."""
        filters = [each.label for each in self.options.filters]
        inputs = {name: index.sha256 for name, index in self.files.items()}
        return {**asdict(self.options), "filters": filters, "inputs": inputs}

    def as_json(self) -> dict[str, Any]:
        """Return the job as JSON; `from_json` is the way back."""
        files = {
            name: {**asdict(index), "path": str(index.path.resolve())} for name, index in self.files.items()
        }  # fmt: skip
        return {"options": asdict(self.options), "files": files}

    @classmethod
    def from_json(cls, job: dict[str, Any]) -> Job:
        """Return the job that `as_json` has described."""
        options = Options(**{**job["options"], "filters": tuple(Filter(**each) for each in job["options"]["filters"])})
        indexes = (FileIndex(**{**index, "starts": tuple(index["starts"])}) for index in job["files"].values())
        return cls(options, {name: replace(index, path=Path(index.path)) for name, index in zip(job["files"], indexes)})
