"""The steps of mix.sh: one data folder from several.

commands:
  mix.py begin FOLDER UPSAMPLE REAL SYNTHETIC...   check the folders, and begin FOLDER's record
  mix.py finish FOLDER UPSAMPLE REAL SYNTHETIC...  join their training text, and complete the record
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import manifest

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.synthetic.like_folder import (
    TRAIN,
    check_like,
    check_same_subwords,
    copy_frame,
    frame_record,
    settings_record,
    side_name,
)
from deepnmt.text.data_folder import check_dictionaries, check_subset, check_texts, subset_prefix
from deepnmt.text.dictionary import check_dictionary, read_types
from deepnmt.text.index_writer import join
from deepnmt.text.inline_targets import PART, TRAINING
from deepnmt.text.record import read_record, selected_on, sha256, write_record
from deepnmt.text.settings import TextSettings

RECORD = "preprocess.json"


def begin(folder: Path, copies: int, parts: Sequence[Path]) -> None:
    """Check that all parts have the same subwords, and begin the record.

    Args:
        folder: to begin
        copies: of the first part
        parts: data folders, the first one with real pairs

    Raises:
        UserError: one is faulty, or of other subwords, or has no training text
    """
    real = parts[0]
    languages = check_like(real).languages
    inputs: dict[str, str] = {}
    for number, part in enumerate(parts):
        check_like(part)
        check_same_subwords(part, real, f"binarise.sh --like {real} or synthesise.sh")
        if "copies" in read_record(part / RECORD):
            raise UserError(f"{part}: must be without copies, but was made by preprocess.sh --bpe-dropout --copies")
        pairs = check_subset(part, TRAIN, languages, check_dictionaries(part, languages))
        if pairs is None:
            raise UserError(f"{part}: must be binarised by preprocess.sh, but is in an older format of fairseq's")
        check_texts(part, TRAIN, [f"{kind}.{name}" for kind in ("tok", "bpe") for name in languages], pairs)
        for name in languages:
            inputs[f"part{number}.{name}"] = sha256(Path(f"{subset_prefix(part, TRAIN, languages)}.{name}.bin"))
    for name in languages:
        check_nested(parts, name)
    record: dict[str, Any] = {**settings_record(real), **frame_record(real), "upsample": copies, "inputs": inputs}
    record |= selected_on(read_record(part / RECORD) for part in parts)
    if (share := read_record(real / RECORD).get(TRAINING)) is not None:
        record[TRAINING] = share
        inputs |= {path.name: sha256(path) for path in inline_files(real) if path.suffix == ".bin"}
    write_record(folder / RECORD, record)


def inline_files(folder: Path) -> list[Path]:
    """Return the files of a folder's training pairs with inline targets."""
    return sorted(path for place in (folder, folder / "text") for path in place.glob(f"{PART}.*"))


def largest(parts: Sequence[Path], language: str) -> Path:
    """Return the dictionary with the most types."""
    return max((part / f"dict.{language}.txt" for part in parts), key=check_dictionary)


def check_nested(parts: Sequence[Path], language: str) -> None:
    """Raise `UserError` if a type has not the same number in all dictionaries."""
    whole = largest(parts, language)
    types = read_types(whole)
    for part in parts:
        path = part / f"dict.{language}.txt"
        own = read_types(path)
        if types[: len(own)] != own:
            raise UserError(f"{path}: must be the beginning of {whole}, but is not; give all parts the same --symbols")


def finish(folder: Path, copies: int, parts: Sequence[Path]) -> None:
    """Join the training text, copy the rest from the first part, and complete the record."""
    real = parts[0]
    languages = TextSettings.read(real).languages
    everything = [real] * copies + list(parts[1:])
    copy_frame(real, folder)
    if TRAINING in read_record(real / RECORD):
        for path in inline_files(real):
            shutil.copyfile(path, folder / path.relative_to(real))
    for language in languages:
        dictionary = largest(parts, language)
        shutil.copyfile(dictionary, folder / f"dict.{language}.txt")
        sides = [f"{subset_prefix(part, TRAIN, languages)}.{language}" for part in everything]
        join(sides, str(folder / side_name(TRAIN, languages, language)), check_dictionary(dictionary))
        for kind in ("tok", "bpe"):
            name = f"{TRAIN}.{kind}.{language}"
            with (folder / "text" / name).open("wb") as file:
                for part in everything:
                    append(part / "text" / name, file)
    numbers = [check_subset(part, TRAIN, languages, check_dictionaries(part, languages)) or 0 for part in parts]
    counts = {"kept": copies * numbers[0] + sum(numbers[1:]), "real": numbers[0], "synthetic": sum(numbers[1:])}
    for part, number in zip(parts, numbers):
        print(f"{part}: {number} pairs{f', {copies} times' if part is real and copies > 1 else ''}", file=sys.stderr)
    (folder / "counts").mkdir()
    path = folder / "counts" / f"{TRAIN}.json"
    path.write_text(json.dumps(counts), encoding="utf-8")
    manifest.finish(folder / RECORD, folder, [path])
    shutil.rmtree(path.parent)


def append(source: Path, file: Any) -> None:
    """Append a text, and the end of its last line where that is missing."""
    with source.open("rb") as text:
        shutil.copyfileobj(text, file)
        text.seek(-1, 2)
        if text.read() != b"\n":
            file.write(b"\n")


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    parser.add_argument("command", choices=("begin", "finish"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("upsample", type=int)
    parser.add_argument("parts", type=Path, nargs="+")
    given = parser.parse_args()
    (begin if given.command == "begin" else finish)(given.folder, given.upsample, given.parts)


if __name__ == "__main__":
    console.run(main)
