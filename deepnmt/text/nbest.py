"""n-best lists: the translations that a search found for each sentence, with features to compare them.

    SENTENCE <tab> RANK <tab> SUBWORDS <tab> NAME=VALUE <tab> NAME=VALUE ...

Sentences are numbered from 0, as in fairseq's log, and have the order of the corpus. Untranslated ones are missing.
Ranks count from 1. The subwords come from the BPE. Every line of a file has the same features; scores are sums of
log-probabilities in nats.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from deepnmt.console import as_number
from deepnmt.errors import UserError
from deepnmt.text.dictionary import STRUCTURAL
from deepnmt.text.lines import read_lines

FILE = "nbest.tsv"
# What a search says of its translations: log P(y | x), the length with the end symbol, the coverage of the source by
# attention, and the number of unknown words.
MODEL, LENGTH, COVERAGE, UNKNOWN = "model", "length", "coverage", "unk"
NAME = re.compile(r"[A-Za-z][\w.-]*")


@dataclass(frozen=True)
class Translation:
    """A line of an n-best list: a sentence from 0, a rank from 1, subwords with single spaces, and features by name."""

    sentence: int
    rank: int
    subwords: str
    features: Mapping[str, float]

    def line(self) -> str:
        """Return the line of the file, without line feed."""
        features = (f"{name}={value:.7g}" for name, value in self.features.items())
        return "\t".join([str(self.sentence), str(self.rank), self.subwords, *features])


def write_nbest(path: Path, translations: Iterable[Translation]) -> None:
    """Write translations in the order of sentences and ranks."""
    in_order = sorted(translations, key=lambda each: (each.sentence, each.rank))
    path.write_bytes("".join(f"{each.line()}\n" for each in in_order).encode("utf-8"))


def read_nbest(path: Path, in_order: bool = True) -> list[Translation]:
    """Return the translations of a file.

    With `in_order`, sentences and ranks must be in order, and each line must have the features of the first. Raises
    `UserError` with file and line of the first fault.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such n-best list; deepnmt generate writes one with --nbest")
    found: list[Translation] = []
    for number, text in enumerate(read_lines(path), start=1):
        try:
            translation = parse(text.rstrip("\n"))
            if in_order:
                _check_order(found[-1] if found else None, translation)
        except ValueError as error:
            raise UserError(f"{path}:{number}: {error}") from None
        found.append(translation)
    if not found:
        raise UserError(f"{path}: must have translations, but is empty")
    return found


def parse(line: str) -> Translation:
    """Return the translation of a line. Raises `ValueError` with the expected form and the line."""
    fields = line.split("\t")
    if len(fields) < 4:
        raise ValueError(
            f"must be a sentence, a rank, subwords and features with tabs between them, but is '{line[:60]}'"
        )
    for name, text in zip(("sentence", "rank"), fields):
        if not re.fullmatch("[0-9]{1,15}", text):
            raise ValueError(f"the {name} must be a whole number, but is '{text[:60]}'")
    if symbol := next(iter(STRUCTURAL.intersection(fields[2].split())), ""):
        raise ValueError(f"the subwords must be text, but have fairseq's symbol {symbol}")
    features: dict[str, float] = {}
    for field in fields[3:]:
        name, equals, text = field.partition("=")
        value = as_number(text)
        if not NAME.fullmatch(name) or not equals or not math.isfinite(value):
            raise ValueError(f"a feature must be a name and a finite number, as in model=-3.2, but is '{field[:60]}'")
        if name in features:
            raise ValueError(f"a feature must stand once in a line, but '{name}' stands twice")
        features[name] = value
    return Translation(int(fields[0]), int(fields[1]), fields[2], features)


def _check_order(before: Translation | None, translation: Translation) -> None:
    """Raise `ValueError` if a translation cannot follow the one before it."""
    same = before is not None and before.sentence == translation.sentence
    rank = before.rank + 1 if before is not None and same else 1
    if before is not None and translation.sentence < before.sentence:
        raise ValueError(f"the sentence must be at least {before.sentence}, but is {translation.sentence}")
    if translation.rank != rank:
        raise ValueError(f"the rank must be {rank}, but is {translation.rank}")
    if before is not None and before.features.keys() != translation.features.keys():
        first, here = (", ".join(each.features) for each in (before, translation))
        raise ValueError(f"the features must be {first}, as in line 1, but are {here}")
