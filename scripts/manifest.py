"""The record of a data folder, preprocess.json: what it was made from, how, and what came out.

commands:
  manifest.py describe FILE KEY=VALUE... --inputs NAME=PATH... [--protect PATTERNS]
                                                                 begin a record, with the inputs' SHA-256
  manifest.py compare OLD NEW [OPTION]                           succeed if OLD is whole, and of the same data as NEW;
                                                                 OPTION is what names OLD's folder (default: --dest)
  manifest.py finish FILE DATA COUNTS...                         add counts of pairs, dictionary and file sizes
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.data_folder import check_files
from deepnmt.text.dictionary import SPECIAL_SYMBOLS, check_dictionary
from deepnmt.text.record import SELECTED_ON, read_record, selection_texts, sha256, write_record
from deepnmt.text.units import read_patterns

RESULTS = ("counts", "types", "files", "checksums")
HELD_OUT = "held_out"
DIFFERENCES = {"like": "other codes or dictionaries", HELD_OUT: "other validation or test sets"}
# By what is in their records alone.
MAKERS = {"synthesis_kind": "synthesise.sh", "upsample": "mix.sh", "selection": "select.sh", "like": "binarise.sh"}


def describe(path: Path, settings: list[str], inputs: list[str], protect: str) -> None:
    """Begin the record of a data folder.

    Args:
        path: of the record
        settings: each KEY=VALUE
        inputs: each NAME=PATH
        protect: the file of patterns, since a command line has no room for long ones; empty for none

    Raises:
        UserError: a pattern is none
    """
    record: dict[str, Any] = {}
    for key, _, value in (setting.partition("=") for setting in settings):
        try:
            record[key] = json.loads(value)
        except ValueError:
            record[key] = value
    if protect:
        record["protect"] = read_patterns(Path(protect))
    named = [entry.partition("=") for entry in inputs]
    record["inputs"] = {name: sha256(Path(file)) for name, _, file in named}
    warn_of_copies(record["inputs"])
    write_record(path, record)


def warn_of_copies(checksums: dict[str, str]) -> None:
    """Say which inputs have the same text as an earlier one, such as a test set that is trained on."""
    first: dict[str, str] = {}
    for name, checksum in checksums.items():
        # The raw text of a split is no split of its own.
        if ".raw." in name:
            continue
        if checksum in first:
            print(f"warning: {name} has the same text as {first[checksum]}", file=sys.stderr)
        first.setdefault(checksum, name)


def check_same(old: Path, record: dict[str, Any], option: str = "--dest") -> None:
    """Check that a data folder is whole, and what a command would make.

    Args:
        old: the folder's record
        record: that the command begins with
        option: of the command, which names the folder

    Raises:
        UserError: names the first difference in what the two were made from, or a damaged file
    """
    before, after = flat(read_record(old, inputs=dict)), flat(record)
    if maker(before) != maker(after):
        raise UserError(f"{old.parent} exists, and was made by {maker(before)}; choose another {option}")
    if what := difference(before, after):
        raise UserError(f"{old.parent} was made with {what}; remove it or choose another {option}")
    try:
        check_files(old.parent)
    except UserError as error:
        raise UserError(f"{error}; remove {old.parent} to make it again") from None


def difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return in words what is the first difference between two flat records; empty if there is none."""
    for key in sorted(before.keys() | after.keys(), key=lambda key: (key.startswith("input: "), key)):
        # Earlier versions did not record what is held out.
        if before.get(key) == after.get(key) or (key == HELD_OUT and key not in before):
            continue
        if key in DIFFERENCES:
            return DIFFERENCES[key]
        if key.startswith("input: ") or key == "protect":
            return f"another {key}"
        return f"{key.removeprefix('synthesis_')} {before.get(key)}, not {after.get(key)}"
    return ""


def maker(record: dict[str, Any]) -> str:
    """Return the script that a record is of."""
    return next((script for key, script in MAKERS.items() if key in record), "preprocess.sh")


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return what a data folder was made from: its settings, and `input: NAME` for each input file."""
    settings = {key: value for key, value in record.items() if key not in ("inputs", SELECTED_ON, *RESULTS)}
    # The text that select.sh was given; others are those of the inputs, and earlier versions did not record them.
    if "selection" in record:
        settings[SELECTED_ON] = next(iter(selection_texts([record])), None)
    return settings | {f"input: {name}": checksum for name, checksum in record["inputs"].items()}


def finish(path: Path, data: Path, counts: list[Path]) -> None:
    """Complete the record with the counts of each split, the types of each dictionary, and the size of each file."""
    record = read_record(path)
    record["counts"] = {file.stem: read_record(file) for file in counts}
    languages = (record["source_lang"], record["target_lang"])
    record["types"] = {language: check_dictionary(data / f"dict.{language}.txt") for language in languages}
    files = (file for file in sorted(data.rglob("*")) if file.is_file() and file not in (path, *counts))
    record["files"] = {file.relative_to(data).as_posix(): file.stat().st_size for file in files}
    with console.whole_file(path) as temporary:
        write_record(temporary, record)
    for language, number in record["types"].items():
        print(f"{language}: {number} types, fairseq's {len(SPECIAL_SYMBOLS)} special symbols included")


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("describe")
    command.add_argument("file", type=Path)
    command.add_argument("settings", nargs="+", metavar="KEY=VALUE")
    command.add_argument("--inputs", nargs="+", required=True, metavar="NAME=PATH")
    command.add_argument("--protect", default="", metavar="PATTERNS")
    command = commands.add_parser("compare")
    command.add_argument("old", type=Path)
    command.add_argument("new", type=Path)
    command.add_argument("option", nargs="?", default="--dest")
    command = commands.add_parser("finish")
    command.add_argument("file", type=Path)
    command.add_argument("data", type=Path)
    command.add_argument("counts", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "describe":
        describe(arguments.file, arguments.settings, arguments.inputs, arguments.protect)
    elif arguments.command == "compare":
        check_same(arguments.old, read_record(arguments.new, inputs=dict), arguments.option)
    else:
        finish(arguments.file, arguments.data, arguments.counts)


if __name__ == "__main__":
    console.run(main)
