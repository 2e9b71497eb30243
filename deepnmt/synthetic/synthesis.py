"""What `deepnmt synthesise` makes from what: its options, checked against each other, the data and the models."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from deepnmt.errors import UserError
from deepnmt.limits import BEAM, DEFAULT_BATCH_SIZE, DEFAULT_BEAM
from deepnmt.synthetic.noise import BLANK, NO_NOISE, Noise
from deepnmt.text.data_folder import check_files, check_subset, check_texts
from deepnmt.text.dictionary import read_types
from deepnmt.text.index_file import Dictionary
from deepnmt.text.like_folder import (
    TRAIN,
    check_absent,
    check_leaks,
    check_like,
    check_same_subwords,
    frame_record,
    held_out_lines,
    settings_record,
)
from deepnmt.text.lines import count_lines
from deepnmt.text.record import read_record, sha256
from deepnmt.text.settings import RECORD, TextSettings
from deepnmt.text.subwords import CODES, MERGES, kind_of, subword_files

BACK, FORWARD, COPY, DISTIL = KINDS = ("back", "forward", "copy", "distil")
METHODS = ("beam", "greedy", "sampling", "top-k")
MONO = "mono"


@dataclass(frozen=True)
class Options:
    """The options of a synthesis; `Synthesis` has its inputs."""

    kind: str
    method: str = "beam"
    beam: int = DEFAULT_BEAM
    top: int = 0
    nbest: int = 1
    closest: bool = False
    keep_real: bool = False
    max_ratio: float = 0.0
    noise: str = ""
    tag: str = ""
    seed: int = 1
    batch_size: int = DEFAULT_BATCH_SIZE
    reverse: bool = False
    allow_overlap: bool = False

    @property
    def synthetic_source(self) -> bool:
        """Return whether it is the source that is made."""
        return self.kind in (BACK, COPY)

    def faults(self) -> Iterator[str]:
        """Yield the faults of the options, a line each."""
        ranges = {"--beam": (self.beam, 1, BEAM), "--batch-size": (self.batch_size, 1, 100_000)}
        ranges["--seed"] = (self.seed, 0, 2**31 - 1)
        for name, (value, low, high) in ranges.items():
            if not low <= value <= high:
                yield f"{name} must be from {low} to {high}, but is {value}"
        if self.method == "top-k" and self.top < 1:
            yield f"--method top-k must be at least 1, but is {self.top}"
        if self.method != "beam" and self.beam != Options.beam:
            yield f"--beam is for --method beam, but the method is {self.method}"
        if self.max_ratio != 0 and not 1 <= self.max_ratio < float("inf"):
            yield f"--max-ratio must be at least 1, or 0 for no limit, but is {self.max_ratio:g}"
        if self.kind == DISTIL:
            if not 1 <= self.nbest <= self.beam:
                yield f"--nbest must be from 1 to --beam {self.beam}, but is {self.nbest}"
            if self.closest and self.nbest == 1:
                yield "--closest must be given with --nbest, the translations to choose from"
            elif self.nbest > 1 and not self.closest:
                yield "--nbest must be given with --closest, which chooses from the translations"
            if self.method != "beam" and self.nbest > 1:
                yield f"--nbest must be given with --method beam, but the method is {self.method}"
        else:
            only = {"--nbest": self.nbest > 1, "--closest": self.closest, "--keep-real": self.keep_real}
            for name in (name for name, there in only.items() if there):
                yield f"{name} is for distil alone"
        if not self.synthetic_source:
            for name, given in (("--noise", self.noise), ("--tag", self.tag)):
                if given:
                    yield f"{name} is for a synthetic source, back or copy, but the source of {self.kind} is real"
        fixed = ("beam", DEFAULT_BEAM, DEFAULT_BATCH_SIZE)
        if self.kind == COPY and (self.method, self.beam, self.batch_size) != fixed:
            yield "--method, --beam and --batch-size are for translating, which copy does not do"
        if self.seed != Options.seed and self.method in ("beam", "greedy") and not self.noise:
            yield "--seed needs --method sampling or top-k, or --noise"
        if self.kind == DISTIL and self.allow_overlap:
            yield "--allow-overlap is for monolingual text, and not for distil, whose text is DATA's own"


@dataclass(frozen=True)
class Synthesis:
    """Options, and where everything is.

    Attributes:
        options: see there
        checkpoints: checkpoints of the models; empty for copies
        data: folder whose codes, dictionaries and held-out text count
        mono: folder of monolingual text; None to distil, where it is DATA's own training text
    """

    options: Options
    checkpoints: tuple[Path, ...]
    data: Path
    mono: Optional[Path]

    @property
    def languages(self) -> tuple[str, str]:
        """Return source and target of the pairs."""
        languages = TextSettings.read(self.data).languages
        return languages[::-1] if self.options.reverse else languages

    @property
    def model_languages(self) -> tuple[str, str]:
        """Return the languages that the models translate from and to."""
        return self.languages[::-1] if self.options.kind == BACK else self.languages

    @property
    def text_language(self) -> str:
        """Return the language of the real text."""
        return self.languages[1] if self.options.synthetic_source else self.languages[0]

    @property
    def folder(self) -> Path:
        """Return the folder of the real text."""
        return self.mono or self.data

    def text(self, kind: str, language: str = "") -> Path:
        """Return the file of the real text, or of the references: kind is tok or bpe."""
        return self.folder / "text" / f"{MONO if self.mono else TRAIN}.{kind}.{language or self.text_language}"

    def check(self) -> None:
        """Raise `UserError` that names invalid options and combinations."""
        faults = list(self.options.faults())
        if faults:
            raise UserError(*faults)
        noise = Noise.parse(self.options.noise) if self.options.noise else NO_NOISE
        settings = check_like(self.data)
        if subword_files(settings) != [CODES] or settings.protect or kind_of(self.data / CODES) != MERGES:
            raise UserError(
                f"{self.data}: must have one BPE for both languages and no more, but was made with --subwords, "
                "--separate, --protect, --vocabulary-threshold, --spell-unknown or --byte-fallback"
            )
        if self.mono is not None:
            self._check_mono(self.mono)
        else:
            dictionaries = {name: Dictionary(self._dictionary(name), len(read_types(self._dictionary(name))))
                            for name in settings.languages}  # fmt: skip
            pairs = check_subset(self.data, TRAIN, settings.languages, dictionaries)
            if pairs is not None:
                kinds = [f"{kind}.{name}" for kind in ("tok", "bpe") for name in settings.languages]
                check_texts(self.data, TRAIN, kinds, pairs)
        source, target = self.languages
        if self.options.kind == COPY and read_types(self._dictionary(source)) != read_types(self._dictionary(target)):
            raise UserError(f"{self.data}: must have one dictionary for both languages, to copy text, but has two")
        types = read_types(self._dictionary(self.model_languages[1]))
        if self.options.top > len(types):
            raise UserError(
                f"--method top-k must be at most the {len(types)} types of the dictionary, but is {self.options.top}"
            )
        symbols = [symbol for symbol in (self.options.tag, BLANK if noise.blank else "") if symbol]
        types = read_types(self.folder / f"dict.{source}.txt")
        for symbol in symbols:
            if symbol not in types:
                raise UserError(
                    f"{self.folder / f'dict.{source}.txt'}: must have the type {symbol}, but does not; make "
                    f"{self.folder} with deepnmt binarise --symbols '{symbol}'"
                )
        check_absent(symbols, [self.text("bpe")])
        if self.checkpoints:
            from deepnmt.checkpoints.data_fit import check_model  # here, since torch takes a second

            for checkpoint in self.checkpoints:
                check_model(checkpoint, self.data, self.model_languages)

    def _dictionary(self, language: str) -> Path:
        return self.data / f"dict.{language}.txt"

    def _check_mono(self, mono: Path) -> None:
        record = read_record(mono / RECORD)
        language, wanted = record.get(MONO), self.text_language
        if language is None:
            raise UserError(f"{mono}: must be a folder made by deepnmt binarise --mono, but is another")
        if language != wanted:
            side = "target" if self.options.synthetic_source else "source"
            raise UserError(f"{mono}: must be text of {wanted}, the {side} of the pairs, but is {language}")
        check_files(mono)
        check_same_subwords(mono, self.data, f"deepnmt binarise --like {self.data}")
        if not self.options.allow_overlap:
            check_leaks(self.text("tok"), held_out_lines(self.data, wanted), self.data)

    def lines(self) -> int:
        """Return the number of lines of the real text."""
        return count_lines(self.text("bpe"))

    def record(self) -> dict[str, Any]:
        """Return the first entries of the pairs' record: settings, and the checksums of everything read."""
        inputs = {f"checkpoint{number or ''}": sha256(path) for number, path in enumerate(self.checkpoints)}
        inputs |= {f"text.{kind}": sha256(self.text(kind)) for kind in ("tok", "bpe")}
        if self.options.kind == DISTIL:
            inputs["references"] = sha256(self.text("tok", self.languages[1]))
        names = TextSettings.read(self.data).languages
        inputs |= {f"dict.{name}": sha256(self.folder / f"dict.{name}.txt") for name in names}
        return {
            **settings_record(self.data),
            **frame_record(self.data),
            **{f"synthesis_{key}": value for key, value in asdict(self.options).items()},
            "inputs": inputs,
        }
