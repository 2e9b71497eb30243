"""The record of a data folder, preprocess.json: what it was made from, how, and what came out.

commands:
  manifest.py describe FILE KEY=VALUE... --inputs NAME=PATH...   begin a record, with the inputs' SHA-256
  manifest.py compare OLD NEW                                    succeed if both stand for the same data
  manifest.py finish FILE DATA COUNTS...                         add counts of pairs, and dictionary sizes
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import Any

from deepnmt import console
from deepnmt.errors import UserError

# fairseq adds <s>, <pad>, </s> and <unk>, which its dictionary files do not list.
SPECIAL_SYMBOLS = 4
RESULTS = ("counts", "types")


def sha256(path: Path) -> str:
    """The checksum of a file, as sha256sum prints it."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def types(dictionary: Path) -> int:
    """The number of types of a fairseq dictionary file, its special symbols included."""
    with dictionary.open("rb") as file:
        return sum(1 for _ in file) + SPECIAL_SYMBOLS


def read(path: Path) -> dict[str, Any]:
    """The record in a file; `UserError` if there is none that can be read."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; is {path.parent} a folder made by preprocess.sh?") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    if not isinstance(record, dict):
        raise UserError(f"{path} must be a JSON object, but is a {type(record).__name__}")
    return record


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record, one key a line."""
    path.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def describe(path: Path, settings: list[str], inputs: list[str]) -> None:
    """Begin the record of a data folder."""
    record: dict[str, Any] = {}
    for key, _, value in (setting.partition("=") for setting in settings):
        try:
            record[key] = json.loads(value)
        except ValueError:
            record[key] = value
    named = (entry.partition("=") for entry in inputs)
    record["inputs"] = {name: sha256(Path(file)) for name, _, file in named}
    write(path, record)


def compare(old: Path, new: Path) -> None:
    """Raise `UserError` naming the first difference in what two data folders were made from."""
    before, after = (flat(read(path)) for path in (old, new))
    for key in sorted(before.keys() | after.keys(), key=lambda key: (key.startswith("input: "), key)):
        if before.get(key) != after.get(key):
            what = f"another {key}" if key.startswith("input: ") else f"{key} {before.get(key)}, not {after.get(key)}"
            raise UserError(f"{old.parent} was made with {what}; remove it or choose another --dest")


def flat(record: dict[str, Any]) -> dict[str, Any]:
    """What a data folder was made from: its settings, and `input: NAME` for each input file."""
    settings = {key: value for key, value in record.items() if key not in ("inputs", *RESULTS)}
    return settings | {f"input: {name}": checksum for name, checksum in record["inputs"].items()}


def finish(path: Path, data: Path, counts: list[Path]) -> None:
    """Complete the record with the counts of each split and the number of types of each dictionary."""
    record = read(path)
    record["counts"] = {file.stem: read(file) for file in counts}
    languages = (record["source_lang"], record["target_lang"])
    record["types"] = {language: types(data / f"dict.{language}.txt") for language in languages}
    write(path, record)
    for language, number in record["types"].items():
        print(f"{language}: {number} types, fairseq's {SPECIAL_SYMBOLS} special symbols included")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("describe")
    command.add_argument("file", type=Path)
    command.add_argument("settings", nargs="+", metavar="KEY=VALUE")
    command.add_argument("--inputs", nargs="+", required=True, metavar="NAME=PATH")
    command = commands.add_parser("compare")
    command.add_argument("old", type=Path)
    command.add_argument("new", type=Path)
    command = commands.add_parser("finish")
    command.add_argument("file", type=Path)
    command.add_argument("data", type=Path)
    command.add_argument("counts", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "describe":
        describe(arguments.file, arguments.settings, arguments.inputs)
    elif arguments.command == "compare":
        compare(arguments.old, arguments.new)
    else:
        finish(arguments.file, arguments.data, arguments.counts)


if __name__ == "__main__":
    console.run(main)
