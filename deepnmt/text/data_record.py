"""The record of a data folder, preprocess.json: its inputs, its settings and its results."""

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepnmt.errors import UserError
from deepnmt.text import record as records
from deepnmt.text.data_folder import check_files
from deepnmt.text.dictionary import SPECIAL_SYMBOLS, check_dictionary
from deepnmt.text.record import INPUT, SELECTED_ON, read_record, selection_texts, sha256, write_record
from deepnmt.text.settings import RECORD

RESULTS = ("counts", "types", "files", "checksums")
HELD_OUT = "held-out"
DIFFERENCES = {
    "like": "other codes or dictionaries",
    HELD_OUT: "other validation or test sets",
    "protect": "another protect",
}
# By their records alone.
MAKERS = {"synthesis_kind": "synthesise", "upsample": "mix", "selection": "select"}
MAKERS |= {"both_directions": "train --both-directions", "like": "binarise"}
Record = Mapping[str, Any]


def checksums(inputs: Mapping[str, Path]) -> dict[str, str]:
    """Return the checksum of each input by its name, and warn of inputs with the same text as an earlier one."""
    found = {name: sha256(path) for name, path in inputs.items()}
    first: dict[str, str] = {}
    for name, checksum in found.items():
        # The raw text of a split is no split of its own.
        if ".raw." in name:
            continue
        if checksum in first:
            print(f"warning: {name} has the same text as {first[checksum]}", file=sys.stderr)
        first.setdefault(checksum, name)
    return found


def check_same(old: Path, record: Record, option: str = "--dest") -> None:
    """Check that a data folder is complete, and the same as the result of a command.

    `old` is the folder's record, `record` the beginning of the command's; its `option` names the folder. Raises
    `UserError` for the first difference in inputs or settings, or for a damaged file.
    """
    before, after = flat(read_record(old, inputs=dict)), flat(record)
    if maker(before) != maker(after):
        raise UserError(f"{old.parent} exists, and was made by {maker(before)}; choose another {option}")
    if what := difference(before, after):
        raise UserError(f"{old.parent} was made {what}; remove it or choose another {option}")
    try:
        check_files(old.parent)
    except UserError as error:
        raise UserError(f"{error}; remove {old.parent} to make it again") from None


def difference(before: Record, after: Record) -> str:
    """Return in words the first difference between two flat records; empty if they are equal."""
    then, now = ({key.removeprefix("synthesis_"): value for key, value in each.items()} for each in (before, after))
    # Earlier versions did not record the held-out sets.
    return records.difference(then, now, (HELD_OUT,), DIFFERENCES)


def maker(record: Record) -> str:
    """Return the command that has made a record."""
    return f"deepnmt {next((name for key, name in MAKERS.items() if key in record), 'preprocess')}"


def flat(record: Record) -> dict[str, Any]:
    """Return the inputs and settings of a data folder: its settings, and `input: NAME` for each input file."""
    settings = {key: value for key, value in record.items() if key not in ("inputs", SELECTED_ON, *RESULTS)}
    # The text given to deepnmt select; others come from the inputs, and earlier versions did not record them.
    if "selection" in record:
        settings[SELECTED_ON] = next(iter(selection_texts([record])), None)
    return settings | {f"{INPUT}{name}": checksum for name, checksum in record["inputs"].items()}


def complete(folder: Path, counts: Mapping[str, Record]) -> None:
    """Complete the record of a folder that is otherwise made: counts by subset, types of dictionaries, file sizes."""
    path = folder / RECORD
    record = read_record(path)
    languages = (record["source_lang"], record["target_lang"])
    record["counts"] = counts
    record["types"] = {language: check_dictionary(folder / f"dict.{language}.txt") for language in languages}
    files = (file for file in sorted(folder.rglob("*")) if file.is_file() and file != path)
    record["files"] = {file.relative_to(folder).as_posix(): file.stat().st_size for file in files}
    write_record(path, record)
    for language, number in record["types"].items():
        print(f"{language}: {number} types, fairseq's {len(SPECIAL_SYMBOLS)} special symbols included")


def identity_of_data(folder: Path) -> str:
    """Return the entries that differ between data folders with other text or subwords; a copy differs in its name."""
    if not (folder / RECORD).is_file():
        return folder.name
    # The size of a log says nothing of the text.
    record = {key: value for key, value in read_record(folder / RECORD).items() if key != "files"}
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
