"""More text for a data folder: prepared as its text was, and binarised with its codes and dictionaries."""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.preparation.cut_text import Output, cut_words, write_texts
from deepnmt.preparation.numbered_text import number_texts
from deepnmt.preparation.rewriting import case_like
from deepnmt.preparation.splits import Rules, prepare_split
from deepnmt.preparation.stage_bar import Stages
from deepnmt.text.data_record import checksums
from deepnmt.text.dictionary import read_types
from deepnmt.text.index_file import Binarised
from deepnmt.text.like_folder import (
    TRAIN,
    check_absent,
    check_like,
    check_symbols,
    copy_frame,
    frame_record,
    held_out_lines,
    leaks,
    like_record,
    settings_record,
    side_name,
)
from deepnmt.text.lines import read_lines
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import Subwords

MONO = "mono"


@dataclass(frozen=True)
class MoreText:
    """The request to `deepnmt binarise`.

    Attributes:
        like: data folder
        prefix: prefix of the text
        language: language of the text; empty: both languages
        symbols: symbols to append to the dictionaries
        drop_overlap: leave out lines that the data folder validates or tests on
    """

    like: Path
    prefix: str
    language: str = ""
    symbols: Sequence[str] = ()
    drop_overlap: bool = False

    @property
    def subset(self) -> str:
        """The name of the text in the folder that is made."""
        return MONO if self.language else TRAIN

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages of the text."""
        return (self.language,) if self.language else check_like(self.like).languages

    def record(self) -> dict[str, Any]:
        """Return the first entries of the folder's record.

        Raises:
            UserError: the data folder is faulty or lacks this language, or a symbol is invalid
        """
        languages = check_like(self.like).languages
        check_symbols(self.symbols)
        if self.language and self.language not in languages:
            raise UserError(f"--lang must be {' or '.join(languages)}, as {self.like} is, but is '{self.language}'")
        # Monolingual text has no subsets beside it.
        alone = self.language and not self.drop_overlap
        frame = {"like": like_record(self.like)} if alone else frame_record(self.like)
        named = {"symbols": list(self.symbols), MONO: self.language, "drop_overlap": self.drop_overlap}
        inputs = {f"{self.subset}.{name}": Path(f"{self.prefix}.{name}") for name in self.languages}
        return {
            **settings_record(self.like),
            **frame,
            **{name: value for name, value in named.items() if value},
            "inputs": checksums(inputs),
        }

    def make(self, folder: Path, workers: int) -> dict[str, Any]:
        """Prepare and binarise the text, and copy the rest from the data folder.

        Args:
            folder: folder to write to, with its record
            workers: maximum number of processes

        Returns:
            the counts

        Raises:
            UserError: the text is faulty, or has one of the symbols
        """
        settings, limits = check_like(self.like), settings_record(self.like)
        text = folder / "text"
        text.mkdir()
        rules = Rules(settings, limits.get("max_len", 0), limits.get("max_ratio", 0), self.language)
        times = {"preparing": 70, "casing": 10 * settings.truecase, "numbering words": 20, "writing": 10}
        with Stages(times) as stages:
            return self._make(folder, settings, rules, workers, stages)

    def _make(self, folder: Path, settings: TextSettings, rules: Rules, workers: int, stages: Stages) -> dict[str, Any]:
        text = folder / "text"
        with stages.stage("preparing") as done:
            counts: dict[str, Any] = prepare_split([self.prefix], str(text / self.subset), rules, workers, done)
        tokens, pieces = ([text / f"{self.subset}.{kind}.{name}" for name in self.languages] for kind in ("tok", "bpe"))
        if settings.truecase:
            with stages.stage("casing") as done:
                case_like(self.like, settings, self.languages, tokens, workers, done)
        if self.drop_overlap:
            counts |= self._drop_overlap(text, counts["kept"])
        check_absent(self.symbols, tokens)
        copy_frame(self.like, folder, self.symbols, subsets=not self.language)
        for name, side in zip(self.languages, self._binarise(folder, settings, tokens, pieces, workers, stages)):
            counts[name] = asdict(side)
            share = side.unknown / max(side.tokens - side.sentences, 1)
            print(f"{name}: {side.sentences} sentences, {side.tokens} tokens, {share:.2%} unknown", file=sys.stderr)
        return counts

    def _binarise(
        self,
        folder: Path,
        settings: TextSettings,
        tokens: Sequence[Path],
        pieces: Sequence[Path],
        workers: int,
        stages: Stages,
    ) -> list[Binarised]:
        """Write the text in subwords and its numbers, and return the counts of each language."""
        cutters = [Subwords(self.like, settings, name) for name in self.languages]
        with TemporaryDirectory(dir=folder) as work:
            with stages.stage("numbering words") as done:
                numbered = number_texts(tokens, Path(work), workers, done)
            cut = cut_words(list(zip(numbered, cutters)), workers)
            prefixes = [folder / side_name(self.subset, settings.languages, name) for name in self.languages]
            types = [read_types(folder / f"dict.{name}.txt") for name in self.languages]
            with stages.stage("writing") as done:
                return write_texts(list(map(Output, numbered, cut, pieces, prefixes, types)), workers, done)

    def _drop_overlap(self, folder: Path, kept: int) -> dict[str, int]:
        """Leave out the lines that the data folder validates or tests on. Raises `UserError` if none is left."""
        texts = [folder / f"{MONO}.{kind}.{self.language}" for kind in ("tok", "raw")]
        texts = [path for path in texts if path.exists()]
        dropped = {number for number, _ in leaks(read_lines(texts[0]), held_out_lines(self.like, self.language))}
        if len(dropped) == kept:
            raise UserError(f"all {kept} lines of the text must not be lines that {self.like} validates or tests on")
        for path in texts:
            with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(line for number, line in enumerate(read_lines(path), 1) if number not in dropped)
        print(f"{len(dropped)} lines left out that {self.like} validates or tests on", file=sys.stderr)
        return {"kept": kept - len(dropped), "overlap": len(dropped)}
