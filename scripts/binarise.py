"""The steps of binarise.sh: more text for an existing data folder.

commands:
  binarise.py begin FOLDER DATA --train PREFIX|--mono PREFIX --lang L   check DATA, begin FOLDER's record;
                                                      print its languages and the options of prepare_text.py
  binarise.py drop-overlap FOLDER DATA LANG COUNTS    leave out lines that DATA validates or tests on
  binarise.py finish FOLDER DATA COUNTS               segmented text to binarised data, and the rest of the record
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import manifest

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.synthetic.leakage import held_out, leaks
from deepnmt.synthetic.like_folder import (
    binarise_text,
    check_absent,
    check_like,
    check_symbols,
    copy_frame,
    frame_record,
    like_record,
    settings_record,
)
from deepnmt.text.lines import read_lines
from deepnmt.text.record import read_record, sha256, write_record

MONO = "mono"
RECORD = "preprocess.json"


def begin(folder: Path, data: Path, prefix: str, language: str, symbols: list[str], drop_overlap: bool) -> list[str]:
    """Begin the record of a folder, and return the languages of the text and the options of prepare_text.py.

    Args:
        folder: to begin
        data: that it is like
        prefix: of the text
        language: of the text; empty where it is of both
        symbols: to append to the dictionaries
        drop_overlap: leave out lines that DATA validates or tests on

    Raises:
        UserError: DATA is faulty, or not of this language, or a symbol cannot be one
    """
    settings = check_like(data)
    check_symbols(symbols)
    if language and language not in settings.languages:
        raise UserError(f"--lang must be {' or '.join(settings.languages)}, as {data} is, but is '{language}'")
    languages = [language] if language else list(settings.languages)
    # Monolingual text has no subsets beside it.
    frame = {"like": like_record(data)} if language and not drop_overlap else frame_record(data)
    record: dict[str, Any] = {**settings_record(data), **frame}
    if symbols:
        record["symbols"] = symbols
    if language:
        record[MONO] = language
    if drop_overlap:
        record["drop_overlap"] = True
    subset = MONO if language else "train"
    record["inputs"] = {f"{subset}.{name}": sha256(Path(f"{prefix}.{name}")) for name in languages}
    write_record(folder / RECORD, record)
    flags = {"lowercase": settings.lowercase, "pretokenized": settings.pretokenized}
    flags["keep-punctuation"] = settings.keep_punctuation
    flags["language-case"] = settings.language_case
    flags["sacremoses"] = not settings.reversible
    options = ["--source-lang", settings.source_lang, "--target-lang", settings.target_lang]
    options += [f"--{flag}" for flag, given in flags.items() if given]
    options += ["--normalise", settings.normalise] if settings.normalise else []
    options += ["--segment", settings.segment] if settings.segment else []
    options += ["--protect", str(folder / RECORD)] if settings.protect else []
    options += ["--max-len", str(record.get("max_len", 0)), "--max-ratio", str(record.get("max_ratio", 0))]
    options += ["--only", language] if language else []
    return [" ".join(languages), *options]


def drop_overlap(folder: Path, data: Path, language: str, counts: Path) -> None:
    """Leave out the lines of monolingual text that DATA validates or tests on, and count them.

    Raises:
        UserError: none is left
    """
    texts = [folder / "text" / f"{MONO}.{kind}.{language}" for kind in ("tok", "raw")]
    texts = [text for text in texts if text.exists()]
    dropped = {number for number, _ in leaks(read_lines(texts[0]), held_out(data, language))}
    numbers = read_record(counts)
    if len(dropped) == numbers["kept"]:
        raise UserError(f"all {numbers['kept']} lines of the text must not be lines that {data} validates or tests on")
    for text in texts:
        with console.whole_file(text) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(line for number, line in enumerate(read_lines(text), 1) if number not in dropped)
    counts.write_text(
        json.dumps({**numbers, "kept": numbers["kept"] - len(dropped), "overlap": len(dropped)}), encoding="utf-8"
    )
    print(f"{len(dropped)} lines left out that {data} validates or tests on", file=sys.stderr)


def finish(folder: Path, data: Path, counts: Path) -> None:
    """Binarise the segmented text, copy the rest from DATA, and complete the record.

    Raises:
        UserError: the text has one of the symbols
    """
    record = read_record(folder / RECORD)
    language = record.get(MONO)
    languages = [language] if language else [record["source_lang"], record["target_lang"]]
    subset = MONO if language else "train"
    symbols = record.get("symbols", [])
    check_absent(symbols, [folder / "text" / f"{subset}.tok.{name}" for name in languages])
    copy_frame(data, folder, symbols, subsets=not language)
    sides = binarise_text(folder, subset, languages)
    numbers = {**read_record(counts), **{name: asdict(side) for name, side in sides.items()}}
    counts.write_text(json.dumps(numbers), encoding="utf-8")
    for name, side in sides.items():
        share = side.unknown / max(side.tokens - side.sentences, 1)
        print(f"{name}: {side.sentences} sentences, {side.tokens} tokens, {share:.2%} unknown", file=sys.stderr)
    manifest.finish(folder / RECORD, folder, [counts])


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("begin")
    command.add_argument("folder", type=Path)
    command.add_argument("data", type=Path)
    command.add_argument("--prefix", required=True)
    command.add_argument("--lang", default="")
    command.add_argument("--symbols", action="append", default=[])
    command.add_argument("--drop-overlap", action="store_true")
    command = commands.add_parser("drop-overlap")
    command.add_argument("folder", type=Path)
    command.add_argument("data", type=Path)
    command.add_argument("lang")
    command.add_argument("counts", type=Path)
    command = commands.add_parser("finish")
    command.add_argument("folder", type=Path)
    command.add_argument("data", type=Path)
    command.add_argument("counts", type=Path)
    given = parser.parse_args()
    if given.command == "begin":
        print("\n".join(begin(given.folder, given.data, given.prefix, given.lang, given.symbols, given.drop_overlap)))
    elif given.command == "drop-overlap":
        drop_overlap(given.folder, given.data, given.lang, given.counts)
    else:
        finish(given.folder, given.data, given.counts)


if __name__ == "__main__":
    console.run(main)
