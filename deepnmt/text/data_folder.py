"""Whether a data folder is whole: dictionaries, binarised subsets, and the record that deepnmt preprocess leaves.

Every command asks this first, so that a fault is one line that names the file, and nothing is half-done when it shows.
"""

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Optional

from deepnmt.errors import UserError, in_place_of
from deepnmt.text.dictionary import check_dictionary, other_types, read_types
from deepnmt.text.index_file import Dictionary, check_side
from deepnmt.text.lines import read_lines
from deepnmt.text.record import read_record
from deepnmt.text.settings import RECORD, TextSettings

# fairseq joins them to `train` and `valid`: train1, train2, ... Languages may have hyphens, as zh-CN has.
SUBSET_FILE = re.compile(r"(?P<subset>[^.]+)\.(?P<pair>[^.]+-[^.]+)\.(?P<language>[^.]+)(\.(idx|bin))?")


def check_data_folder(folder: Path, subsets: Iterable[str], languages: Optional[tuple[str, str]] = None) -> None:
    """Check the files that fairseq reads in a folder, and the record if it has one.

    Raises `UserError` for the first fault, with its file, the expected value and the value found.

    Args:
        folder: folder made by deepnmt preprocess or fairseq-preprocess
        subsets: subsets that will be needed, such as `train` and `valid`
        languages: source and target; None: the folder's own
    """
    source, target = languages or languages_of(folder)
    dictionaries = check_dictionaries(folder, (source, target))
    if (folder / RECORD).exists():
        check_record(folder, dictionaries)
    for subset in subsets:
        check_subset(folder, subset, (source, target), dictionaries)


def check_training_data(
    folders: Sequence[Path], train: str, valid: Iterable[str], languages: Optional[tuple[str, str]] = None
) -> None:
    """Check the folders that a training goes through, one an epoch; dictionaries and validation are the first one's.

    Raises `UserError` for the first fault.

    Args:
        train: subset of each
        valid: subsets of the first
        languages: source and target; None: the first folder's own
    """
    languages = languages or languages_of(folders[0])
    check_data_folder(folders[0], [train, *valid], languages)
    dictionaries = check_dictionaries(folders[0], languages)
    check_same_types(folders, languages)
    for folder in folders[1:]:
        languages_of(folder)
        check_subset(folder, train, languages, dictionaries)


def check_same_types(folders: Sequence[Path], languages: tuple[str, str]) -> None:
    """Refuse folders whose dictionaries number types otherwise than the first one's, by which all text is read.

    Raises `UserError` for the first type that differs. A folder without dictionaries, such as a copy, passes.
    """
    for language in languages:
        first, *others = (folder / f"dict.{language}.txt" for folder in folders)
        for path in others:
            if path.exists() and (fault := other_types(read_types(first), read_types(path))):
                raise UserError(f"{path}: must be a dictionary like {first}, {fault}")


@contextmanager
def one_name(folder: Path) -> Iterator[Path]:
    """Give a name of a folder by which fairseq, which reads a colon as the end of a name, finds it for a while."""
    if os.pathsep not in str(folder):
        yield folder
        return
    with tempfile.TemporaryDirectory() as place:
        link = Path(place) / "data"
        link.symlink_to(folder.absolute(), target_is_directory=True)
        yield link


def languages_of(folder: Path) -> tuple[str, str]:
    """Return source and target language of a folder. Raises `UserError` if it has no data."""
    if not folder.is_dir():
        raise UserError(f"{folder}: not found; DATA must be a folder made by deepnmt preprocess")
    if (folder / RECORD).exists():
        return TextSettings.read(folder).languages
    for path in sorted(folder.iterdir()):
        if found := SUBSET_FILE.fullmatch(path.name):
            pair, language = found["pair"], found["language"]
            if pair.startswith(f"{language}-"):
                return language, pair[len(language) + 1 :]
            if pair.endswith(f"-{language}"):
                return pair[: -len(language) - 1], language
    raise UserError(f"{folder}: must be a data folder, but has no files such as train.de-en.de.idx")


def check_dictionaries(folder: Path, languages: tuple[str, str]) -> dict[str, Dictionary]:
    """Return the dictionaries by language. Raises `UserError` if one is missing or faulty."""
    paths = {language: folder / f"dict.{language}.txt" for language in languages}
    return {language: Dictionary(path, check_dictionary(path)) for language, path in paths.items()}


def check_record(folder: Path, dictionaries: dict[str, Dictionary]) -> None:
    """Raise `UserError` if the record is faulty, or a file is not as long as recorded, or a dictionary."""
    TextSettings.read(folder)
    check_files(folder)
    path = folder / RECORD
    # Folders from before these were recorded have neither types nor files.
    types = read_record(path, types=dict)["types"] if "types" in read_record(path) else {}
    for language, dictionary in dictionaries.items():
        if types.get(language, dictionary.types) != dictionary.types:
            raise UserError(
                f"{dictionary.path}: must have the {types[language]} types that {path} records, "
                f"but has {dictionary.types}"
            )


def check_files(folder: Path) -> None:
    """Raise `UserError` if a file that the record names is missing, or not as long as recorded."""
    record = folder / RECORD
    files = read_record(record, files=dict)["files"] if "files" in read_record(record) else {}
    for name, size in files.items():
        path = folder / name
        got = path.stat().st_size if path.is_file() else None
        if got != size:
            has = "there is no such file" if got is None else f"has {got}"
            raise UserError(f"{path}: must have the {size} bytes that {record} records, but {has}")


def subsets_of(folder: Path) -> list[str]:
    """Return the names of the binarised subsets of a folder."""
    found = (SUBSET_FILE.fullmatch(path.name) for path in sorted(folder.glob("*.idx")))
    return list(dict.fromkeys(match["subset"] for match in found if match))


def check_subset(
    folder: Path,
    subset: str,
    languages: tuple[str, str],
    dictionaries: dict[str, Dictionary],
    target_needed: bool = True,
) -> Optional[int]:
    """Check both sides of a subset, and return the number of its pairs; None in fairseq's older formats.

    Raises `UserError` if the subset or a side is missing or faulty, or the sides differ in length.

    Args:
        languages: source and target; the files may name them in either order
        target_needed: the target may not be missing, as it may in translating
    """
    target = languages[1]
    prefix = subset_prefix(folder, subset, languages)
    if prefix is None:
        found = ", ".join(subsets_of(folder)) or "none at all"
        raise in_place_of(FileNotFoundError, f"the subset must be one of {found} ({folder}), but is {subset}")
    counts = {}
    for language in languages:
        side = f"{prefix}.{language}"
        if language == target and not target_needed and not _has(side):
            continue
        counts[side] = check_side(side, dictionaries[language])
    lengths = {side: count for side, count in counts.items() if count is not None}
    if len(set(lengths.values())) > 1:
        (first, one), (second, other) = lengths.items()
        raise UserError(f"{first}.idx must have as many sentences as {second}.idx, {other}, but has {one}")
    return next(iter(lengths.values()), None)


def is_there(folder: Path, subset: str, languages: tuple[str, str]) -> bool:
    """Return whether a folder has files of a subset."""
    return subset_prefix(folder, subset, languages) is not None


def parts_of(folder: Path, subset: str, languages: tuple[str, str]) -> Iterator[str]:
    """Yield the subsets that fairseq joins, as it does of its training set: `train`, `train1`, `train2`, ..."""
    part, number = subset, 0
    while number == 0 or is_there(folder, part, languages):
        yield part
        number += 1
        part = f"{subset}{number}"


def subset_prefix(folder: Path, subset: str, languages: tuple[str, str]) -> Optional[Path]:
    """Return the common start of the paths of a subset's files, in either order of the languages; None: no files."""
    for first, second in (languages, languages[::-1]):
        prefix = folder / f"{subset}.{first}-{second}"
        if any(_has(f"{prefix}.{language}") for language in languages):
            return prefix
    return None


def _has(side: str) -> bool:
    """Return whether any file of a side exists; raw text counts: the message can then name the missing file."""
    return any(Path(side + ending).exists() for ending in (".idx", ".bin", ""))


def check_texts(folder: Path, subset: str, kinds: Iterable[str], sentences: int) -> None:
    """Raise `UserError` if a text that a folder keeps of a subset has not a line for each sentence, or is not UTF-8.

    Args:
        kinds: names such as `tok.de`
        sentences: sentences in the binarised subset
    """
    for kind in kinds:
        path = folder / "text" / f"{subset}.{kind}"
        if not path.is_file():
            raise UserError(f"{path}: no such file; {folder} must be a whole folder made by deepnmt preprocess")
        if (lines := sum(1 for _ in read_lines(path))) != sentences:
            raise UserError(f"{path} must have a line for each of the {sentences} sentences, but has {lines}")
