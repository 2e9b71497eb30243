"""One data folder from several: real pairs, and synthetic ones."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_dictionaries, check_subset, check_texts, subset_prefix
from deepnmt.text.dictionary import check_dictionary, read_types
from deepnmt.text.index_file import join
from deepnmt.text.inline_targets import PART, TRAINING
from deepnmt.text.like_folder import (
    TRAIN,
    check_like,
    check_same_subwords,
    copy_frame,
    frame_record,
    settings_record,
    side_name,
)
from deepnmt.text.record import read_record, selected_on, sha256
from deepnmt.text.settings import RECORD, TextSettings

KINDS = ("tok", "bpe")


@dataclass(frozen=True)
class Mixture:
    """The parts of a mixture.

    Attributes:
        parts: data folders, the first one with real pairs
        upsample: number of copies of the first one's pairs
    """

    parts: Sequence[Path]
    upsample: int = 1

    def record(self) -> dict[str, Any]:
        """Return the first entries of the mixed folder's record.

        Raises:
            UserError: a folder is faulty, or has other subwords or no training text
        """
        real = self.parts[0]
        languages = check_like(real).languages
        inputs: dict[str, str] = {}
        for number, part in enumerate(self.parts):
            check_like(part)
            check_same_subwords(part, real, f"deepnmt binarise --like {real} or deepnmt synthesise")
            if "copies" in read_record(part / RECORD):
                made = "deepnmt preprocess --copies"
                raise UserError(f"{part}: must be without copies, but was made by {made}")
            pairs = check_subset(part, TRAIN, languages, check_dictionaries(part, languages))
            if pairs is None:
                raise UserError(f"{part}: must be binarised by deepnmt preprocess, but is in fairseq's older format")
            check_texts(part, TRAIN, [f"{kind}.{name}" for kind in KINDS for name in languages], pairs)
            for name in languages:
                inputs[f"part{number}.{name}"] = sha256(Path(f"{subset_prefix(part, TRAIN, languages)}.{name}.bin"))
        for name in languages:
            _check_nested(self.parts, name)
        record: dict[str, Any] = {**settings_record(real), **frame_record(real)}
        record |= {"upsample": self.upsample, "inputs": inputs}
        record |= selected_on(read_record(part / RECORD) for part in self.parts)
        if (share := read_record(real / RECORD).get(TRAINING)) is not None:
            record[TRAINING] = share
            inputs |= {path.name: sha256(path) for path in _inline_files(real) if path.suffix == ".bin"}
        return record

    def make(self, folder: Path) -> dict[str, int]:
        """Join the training text, copy the rest from the first part, and return the counts."""
        parts, real = self.parts, self.parts[0]
        languages = TextSettings.read(real).languages
        everything = [real] * self.upsample + list(parts[1:])
        copy_frame(real, folder)
        if TRAINING in read_record(real / RECORD):
            for path in _inline_files(real):
                shutil.copyfile(path, folder / path.relative_to(real))
        for language in languages:
            dictionary = _largest(parts, language)
            shutil.copyfile(dictionary, folder / f"dict.{language}.txt")
            sides = [f"{subset_prefix(part, TRAIN, languages)}.{language}" for part in everything]
            join(sides, str(folder / side_name(TRAIN, languages, language)), check_dictionary(dictionary))
            for kind in KINDS:
                name = f"{TRAIN}.{kind}.{language}"
                with (folder / "text" / name).open("wb") as file:
                    for part in everything:
                        _append(part / "text" / name, file)
        numbers = [check_subset(part, TRAIN, languages, check_dictionaries(part, languages)) or 0 for part in parts]
        for part, number in zip(parts, numbers):
            times = f", {self.upsample} times" if part is real and self.upsample > 1 else ""
            print(f"{part}: {number} pairs{times}", file=sys.stderr)
        first, others = numbers[0], sum(numbers[1:])
        return {"kept": self.upsample * first + others, "real": first, "synthetic": others}


def _inline_files(folder: Path) -> list[Path]:
    """Return the files of a folder's training pairs with inline targets."""
    return sorted(path for place in (folder, folder / "text") for path in place.glob(f"{PART}.*"))


def _largest(parts: Sequence[Path], language: str) -> Path:
    """Return the dictionary with the most types."""
    return max((part / f"dict.{language}.txt" for part in parts), key=check_dictionary)


def _check_nested(parts: Sequence[Path], language: str) -> None:
    """Raise `UserError` if a type has not the same number in all dictionaries."""
    whole = _largest(parts, language)
    types = read_types(whole)
    for part in parts:
        path = part / f"dict.{language}.txt"
        own = read_types(path)
        if types[: len(own)] != own:
            raise UserError(f"{path}: must be the beginning of {whole}, but is not; give all parts the same --symbols")


def _append(source: Path, file: BinaryIO) -> None:
    """Append a text, and the end of its last line where that is missing."""
    with source.open("rb") as text:
        shutil.copyfileobj(text, file)
        text.seek(-1, 2)
        if text.read() != b"\n":
            file.write(b"\n")
