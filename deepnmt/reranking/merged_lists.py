"""n-best lists of the same sentences, merged, each translation once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepnmt.errors import UserError
from deepnmt.text.nbest import FILE, LENGTH, MODEL, UNKNOWN, Translation, read_nbest
from deepnmt.text.record import read_record
from deepnmt.text.translated_folder import INLINE, RECORD, check_direction, data_settings, lines_of, text_of

# These describe the translation whichever search found it; others belong to one list's model.
OF_ALL = (LENGTH, UNKNOWN)


@dataclass
class Candidate:
    """A translation of a sentence.

    Attributes:
        subwords: with single spaces
        features: values by their names
        probability: P(y): the mean over the lists of exp(log P) / sum exp(log P)
        share: the mean over the lists of the share of their lines with it
    """

    subwords: str
    features: dict[str, float]
    probability: float = 0.0
    share: float = 0.0


@dataclass(frozen=True)
class MergedLists:
    """Candidates of each sentence of a subset, and their origin.

    Attributes:
        subset: of the data folder
        reverse: the translations are of the other direction
        candidates: of each sentence; empty where translations are missing
        names: features of all candidates
        tops: the first translation of each list, by sentence, or None
        records: the contents of each list's generate.json
        read: the sources' subwords with inline targets, if a glossary was used; else empty
    """

    subset: str
    reverse: bool
    candidates: list[list[Candidate]]
    names: tuple[str, ...]
    tops: list[list[str | None]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    read: list[str] = field(default_factory=list)

    def with_features(self, names: Sequence[str]) -> MergedLists:
        """Return the lists with some of their features alone. Raises `UserError` if one is missing, or given twice."""
        if len({*names}) < len(names):
            raise UserError(f"--features: must be names that differ, but is {','.join(names)}")
        if lacking := [name for name in names if name not in self.names]:
            raise UserError(f"--features: must be among {', '.join(self.names)}, but {', '.join(lacking)} is not")
        for found in self.candidates:
            for candidate in found:
                candidate.features = {name: candidate.features[name] for name in names}
        return dataclasses.replace(self, names=tuple(names))


def read_lists(paths: Sequence[Path], data: Path, probable: bool = False) -> MergedLists:
    """Return the lists in files written by deepnmt generate.

    Args:
        paths: of the files, each beside the record of its translations
        data: the folder of the translated data
        probable: P(y) is needed, which requires the search's scores in a list

    Raises:
        UserError: a file or a record is faulty, or the lists cover different sentences or other data
    """
    paths = [path / FILE if path.is_dir() else path for path in paths]
    lists = [read_nbest(path) for path in paths]
    records = [read_record(path.parent / RECORD, subset=str, target_lang=str) for path in paths]
    for path, translations in zip(paths, lists):
        if probable and MODEL not in translations[0].features:
            raise UserError(
                f"{path}: must have the feature {MODEL}, by which translations are probable, but has "
                f"{', '.join(translations[0].features)}"
            )
    subset, reverse = str(records[0]["subset"]), bool(records[0].get("reverse"))
    for path, record in zip(paths, records):
        found = str(record["subset"]), bool(record.get("reverse"))
        if found != (subset, reverse):
            way = {False: "", True: " in the other direction"}
            raise UserError(
                f"{path}: must be of {subset}{way[reverse]}, as {paths[0]} is, but is of {found[0]}{way[found[1]]}"
            )
    check_direction(data, reverse)
    source, target = data_settings(data, reverse).languages
    if any(record["target_lang"] != target for record in records):
        raise UserError(f"{paths[0]}: must be translations to {target}, but are to {records[0]['target_lang']}")
    if not text_of(data, subset, source).is_file():
        raise UserError(f"{paths[0]}: must be of a subset of {data}, but is of {subset}")
    sources = lines_of(text_of(data, subset, source))
    for path in paths:
        _check_sources(path.parent / f"src.{source}", sources, text_of(data, subset, source))
    for path, translations in zip(paths, lists):
        last = translations[-1].sentence
        if last >= len(sources):
            raise UserError(f"{path}: must be of the {len(sources)} sentences of {subset}, but has number {last}")
    candidates, names = merge(lists, len(sources))
    tops: list[list[str | None]] = []
    for translations in lists:
        first = {each.sentence: each.subwords for each in translations if each.rank == 1}
        tops.append([first.get(number) for number in range(len(sources))])
    read = _read_of(paths, source, len(sources))
    return MergedLists(subset, reverse, candidates, names, tops, records, read)


def merge(lists: Sequence[Sequence[Translation]], sentences: int) -> tuple[list[list[Candidate]], tuple[str, ...]]:
    """Return the candidates of each sentence, in the order of lists and ranks, and the names of their features.

    One list keeps its features. Several lists keep only features that do not depend on a list's model.
    """
    names = tuple(lists[0][0].features)
    if len(lists) > 1:
        names = tuple(name for name in OF_ALL if all(name in found[0].features for found in lists))
    merged: list[dict[str, Candidate]] = [{} for _ in range(sentences)]
    # Lists without a sentence do not affect its candidates.
    voices = [0] * sentences
    for translations in lists:
        by_sentence: list[list[Translation]] = [[] for _ in range(sentences)]
        for each in translations:
            by_sentence[each.sentence].append(each)
        for number, found in enumerate(by_sentence):
            voices[number] += bool(found)
            for each, probability in zip(found, probabilities(found)):
                features = {name: each.features[name] for name in names}
                candidate = merged[number].setdefault(each.subwords, Candidate(each.subwords, features))
                candidate.probability += probability
                candidate.share += 1 / len(found)
    for number, each_sentence in enumerate(merged):
        for candidate in each_sentence.values():
            candidate.probability /= voices[number]
            candidate.share /= voices[number]
    return [list(each.values()) for each in merged], names


def probabilities(translations: Sequence[Translation]) -> list[float]:
    """Return P of each translation of a list, which sum to 1 over the different ones; all are equal without log P."""
    if not translations:
        return []
    best = max(each.features.get(MODEL, 0.0) for each in translations)
    # A translation that was sampled twice is not more probable for that reason.
    seen: set[str] = set()
    weights = []
    for each in translations:
        weights.append(0.0 if each.subwords in seen else math.exp(each.features.get(MODEL, 0.0) - best))
        seen.add(each.subwords)
    return [weight / sum(weights) for weight in weights]


def _read_of(paths: Sequence[Path], source: str, sentences: int) -> list[str]:
    """Return the sources with inline targets of the lists. Raises `UserError` if lists differ in them."""
    files = [path.parent / f"{INLINE}.{source}" for path in paths]
    read = [lines_of(file) if file.is_file() else [] for file in files]
    for path, lines in zip(paths, read):
        if lines != read[0]:
            raise UserError(f"{path} cannot be combined with {paths[0]}: they were made with different glossaries")
    if read[0] and len(read[0]) != sentences:
        raise UserError(f"{files[0]}: must have a line for each of {sentences} sentences, but has {len(read[0])}")
    return read[0]


def _check_sources(path: Path, sources: Sequence[str], expected: Path) -> None:
    """Raise `UserError` if the sources beside a list differ from the data's."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; is {path.parent} a folder made by deepnmt generate?")
    found = lines_of(path)
    if len(found) != len(sources):
        raise UserError(f"{path}: must have the {len(sources)} lines of {expected}, but has {len(found)}")
    for number, (line, other) in enumerate(zip(found, sources), start=1):
        if line != other:
            raise UserError(f"{path}:{number}: must be '{other[:60]}', as in {expected}, but is '{line[:60]}'")
