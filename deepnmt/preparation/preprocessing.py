"""The request to `deepnmt preprocess`: its options, checked, and the record of the data folder that it makes."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Optional

from deepnmt.errors import UserError
from deepnmt.text.data_record import checksums
from deepnmt.text.languages import is_chinese, language_fault
from deepnmt.text.normalisation import parse_steps
from deepnmt.text.placeholders import parse_kinds
from deepnmt.text.record import read_record
from deepnmt.text.settings import RECORD
from deepnmt.text.units import read_patterns

TRAIN, VALID, TEST = "train", "valid", "test"
KINDS = ("bpe", "wordpiece", "unigram", "char")
# Of a BPE of the text, and of all other kinds of subwords.
MERGES, TYPES = 10_000, 10_000
PAIR_COUNT = 30


class Split(NamedTuple):
    """Text that the data are made from: a prefix, and perhaps the prefix of the same text untokenised."""

    name: str
    prefix: str
    raw: str = ""


@dataclass(frozen=True)
class Preprocessing:
    """The options by their names; `deepnmt preprocess --help` explains each."""

    source_lang: str
    target_lang: str
    train: str
    dest: Path
    valid: Optional[str] = None
    valid_every: Optional[int] = None
    test: Sequence[str] = ()
    raw_valid: Optional[str] = None
    raw_test: Sequence[str] = ()
    pretokenized: bool = False
    keep_punctuation: bool = False
    normalise: str = ""
    lowercase: bool = False
    truecase: bool = False
    segment: str = ""
    protect: Optional[Path] = None
    placeholders: str = ""
    max_len: int = 175
    max_ratio: float = 0
    subwords: str = "bpe"
    bpe_merges: Optional[int] = None
    vocabulary: Optional[int] = None
    min_pair_count: Optional[int] = None
    separate: bool = False
    separate_dictionaries: bool = False
    vocabulary_threshold: int = 0
    spell_unknown: bool = False
    byte_fallback: bool = False
    bpe_dropout: Optional[float] = None
    unigram_sampling: Optional[float] = None
    copies: Optional[int] = None
    glossary_training: Optional[float] = None

    @property
    def languages(self) -> tuple[str, str]:
        """The source's language and the target's."""
        return self.source_lang, self.target_lang

    @property
    def merges(self) -> int:
        """Merge operations of a BPE whose number of types is not given; otherwise 0."""
        counts_types = self.subwords != "bpe" or self.vocabulary is not None
        return 0 if counts_types else self.bpe_merges or MERGES

    @property
    def types(self) -> int:
        """Types of subwords, where they are counted."""
        return 0 if self.merges else self.vocabulary or TYPES

    @property
    def least_pairs(self) -> int:
        """Times that two word pieces must be seen side by side."""
        return self.min_pair_count or PAIR_COUNT

    @property
    def limited(self) -> bool:
        """Whether words are cut by the types of the training text, too."""
        return bool(self.vocabulary_threshold or self.spell_unknown or self.byte_fallback)

    def splits(self) -> list[Split]:
        """Return the texts that are read."""
        found = [Split(TRAIN, self.train)]
        if self.valid:
            found.append(Split(VALID, self.valid, self.raw_valid or ""))
        raw = [*self.raw_test, *[""] * len(self.test)]
        return found + [Split(f"{TEST}{number or ''}", *both) for number, both in enumerate(zip(self.test, raw))]

    def check(self) -> None:
        """Raise `UserError` if options conflict with each other."""
        # One at a time: a fault may be the cause of the next ones.
        for fault in (*self._faults_of_places(), *self._faults_of_subwords(), *self._faults_of_text()):
            raise UserError(fault)
        parse_steps(self.normalise)
        parse_kinds(self.placeholders)

    def _faults_of_places(self) -> Iterator[str]:
        if not self.valid and not self.valid_every:
            yield "--valid or --valid-every must be given"
        if self.valid_every and (self.valid or self.raw_valid):
            yield "--valid-every stands in place of --valid and --raw-valid"
        for name, language in zip(("source", "target"), self.languages):
            if fault := language_fault(language):
                yield f"--{name}-lang {fault}"
        if self.source_lang == self.target_lang:
            yield f"--source-lang and --target-lang must differ, but both are '{self.source_lang}'"
        # fairseq takes either for the end of a path.
        is_link = self.dest.is_symlink() or self.dest.name in ("", "..")
        place = os.path.realpath(self.dest) if is_link else str(self.dest)
        for sign, name, path in ((",", "comma", place), (":", "colon", str(self.dest))):
            if sign in path:
                yield f"--dest must not contain a {name}, but is '{path}'"

    def _faults_of_subwords(self) -> Iterator[str]:
        kind, cut_further = self.subwords, self.separate or self.limited or self.protect or self.placeholders
        if kind not in KINDS:
            yield f"--subwords must be {', '.join(KINDS[:-1])} or {KINDS[-1]}, but is '{kind}'"
        if kind == "bpe" and self.bpe_merges and self.vocabulary:
            yield "--bpe-merges cannot be combined with --vocabulary"
        if kind != "bpe" and self.bpe_merges:
            yield f"--bpe-merges is for --subwords bpe, but KIND is {kind}; use --vocabulary"
        if kind == "char" and self.vocabulary:
            yield "--vocabulary cannot be combined with --subwords char"
        if kind != "wordpiece" and self.min_pair_count:
            yield f"--min-pair-count is for --subwords wordpiece, but KIND is {kind}"
        if self.unigram_sampling is not None:
            yield from self._faults_of_sampling()
        elif (self.bpe_dropout is None) != (self.copies is None):
            yield "--bpe-dropout and --copies must be given together"
        if self.bpe_dropout is not None and not 0 < self.bpe_dropout < 1:
            yield f"--bpe-dropout must be between 0 and 1, but is '{self.bpe_dropout}'"
        if self.bpe_dropout is not None and kind not in ("bpe", "wordpiece"):
            yield f"--bpe-dropout is for --subwords bpe or wordpiece, but KIND is {kind}"
        if self.copies and cut_further:
            yield (
                "--copies cannot be combined with --separate, --vocabulary-threshold, --spell-unknown, "
                "--byte-fallback, --protect or --placeholders"
            )
        if self.glossary_training is not None and not 0 < self.glossary_training <= 1:
            yield f"--glossary-training must be above 0 and at most 1, but is '{self.glossary_training}'"
        if self.glossary_training and self.copies:
            yield "--glossary-training cannot be combined with --copies; train with --bpe-dropout instead"

    def _faults_of_sampling(self) -> Iterator[str]:
        if self.bpe_dropout is not None:
            yield "--unigram-sampling cannot be combined with --bpe-dropout"
        if self.subwords != "unigram":
            yield f"--unigram-sampling is for --subwords unigram, but KIND is {self.subwords}"
        if not self.unigram_sampling:
            yield f"--unigram-sampling must be above 0, but is '{self.unigram_sampling}'"
        if self.copies is None:
            yield "--unigram-sampling and --copies must be given together"

    def _faults_of_text(self) -> Iterator[str]:
        given = self.normalise.split(",")
        chinese = any(map(is_chinese, self.languages))
        for option, value in (
            ("--keep-punctuation", self.keep_punctuation), ("--normalise", self.normalise), ("--segment", self.segment),
        ):  # fmt: skip
            if value and self.pretokenized:
                yield f"{option} is for text that is not --pretokenized"
        if self.lowercase and self.truecase:
            yield "--truecase cannot be combined with --lowercase, which leaves no case"
        if self.keep_punctuation and "punctuation" in given:
            yield "--normalise punctuation cannot be combined with --keep-punctuation"
        if "simplified" in given and not chinese:
            yield f"--normalise simplified must have a language zh, but has {' and '.join(self.languages)}"
        if (self.raw_valid or self.raw_test) and not self.pretokenized:
            yield "--raw-valid and --raw-test are for --pretokenized text alone; otherwise the input is the raw text"
        if self.raw_test and len(self.raw_test) != len(self.test):
            times = f"but is given {len(self.raw_test)} times"
            yield f"--raw-test must be given once for each --test ({len(self.test)}), {times}"
        if self.segment not in ("", "jieba"):
            yield f"--segment must be jieba, but is '{self.segment}'"
        if self.segment and not chinese:
            yield f"--segment jieba: one of the languages must be zh, but they are {' and '.join(self.languages)}"

    def record(self) -> dict[str, Any]:
        """Return the first entries of the data's record. Raises `UserError` if a pattern or an input is faulty."""
        made = self.dest / RECORD
        before = read_record(made) if made.is_file() else None

        def is_recorded(name: str) -> bool:
            # A folder of an earlier version, whose record lacks a setting, is up to date as it is.
            return before is None or name in before

        counted = self.subwords != "char" and not self.merges
        copies, share = self.copies, self.glossary_training
        # Named only where they are used: folders made without them keep their records.
        named = {
            "placeholders": ",".join(parse_kinds(self.placeholders)),
            "segment": self.segment,
            "units_first": bool(self.protect or self.placeholders) and is_recorded("units_first"),
            "all_numbers": "numbers" in self.placeholders and is_recorded("all_numbers"),
            "language_case": (self.lowercase or self.truecase) and is_recorded("language_case"),
            "reversible": not self.pretokenized and is_recorded("reversible"),
            "subwords": self.subwords if self.subwords != "bpe" else "",
            "vocabulary": self.types if counted else 0,
            "min_pair_count": self.least_pairs if self.subwords == "wordpiece" else 0,
            "separate": self.separate,
            "vocabulary_threshold": self.vocabulary_threshold,
            "spell_unknown": self.spell_unknown,
            "byte_fallback": self.byte_fallback,
            "keep_punctuation": self.keep_punctuation,
            "normalise": ",".join(parse_steps(self.normalise)),
            "truecase": self.truecase,
            "valid_every": self.valid_every,
            "bpe_dropout": self.bpe_dropout,
            "unigram_sampling": self.unigram_sampling,
            "copies": copies,
            "glossary": share is not None,
            "glossary_training": share,
            "protect": read_patterns(self.protect) if self.protect else None,
        }
        inputs = {
            f"{name}{kind}.{language}": Path(f"{prefix}.{language}")
            for name, *prefixes in self.splits()
            for language in self.languages
            for kind, prefix in zip(("", ".raw"), prefixes)
            if prefix
        }
        return {
            "source_lang": self.source_lang,
            "target_lang": self.target_lang,
            "lowercase": self.lowercase,
            "pretokenized": self.pretokenized,
            "bpe_merges": self.merges,
            "joined_dictionary": not self.separate_dictionaries,
            "max_len": self.max_len,
            "max_ratio": self.max_ratio,
            **{name: value for name, value in named.items() if value},
            "inputs": checksums(inputs),
        }
