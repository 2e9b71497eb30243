"""Move every Nth line of a prepared training split to a validation split: TRAIN.* to VALID.*, all files alike."""

from __future__ import annotations

import json
import os
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.record import read_record


def hold_out(train: Path, valid: Path, every: int) -> int:
    """Move lines `every`, 2 `every`, ... of each file TRAIN.KIND to VALID.KIND, and return their number.

    Raises:
        UserError: there are fewer lines than that
    """
    moved = 0
    for source in sorted(train.parent.glob(f"{train.name}.*")):
        kind = source.name[len(train.name) :]
        rest = source.with_name(source.name + ".rest")
        with (
            source.open("rb") as lines,
            rest.open("wb") as kept,
            (valid.parent / (valid.name + kind)).open("wb") as out,
        ):
            number = 0
            for number, line in enumerate(lines, start=1):
                (kept if number % every else out).write(line)
        moved = number // every
        if moved == 0:
            raise UserError(f"--valid-every must be at most the number of training pairs, {number}, but is {every}")
        os.replace(rest, source)
    return moved


def main() -> None:
    """Split the files and their counts."""
    parser = console.Parser(description=__doc__)
    parser.add_argument("train", type=Path, metavar="TRAIN", help="prefix of the files to take lines from")
    parser.add_argument("valid", type=Path, metavar="VALID", help="prefix of the files to write")
    parser.add_argument("every", type=int, metavar="N")
    parser.add_argument("--counts", type=Path, nargs=2, metavar=("TRAIN", "VALID"), help="JSON files, old and new")
    arguments = parser.parse_args()
    moved = hold_out(arguments.train, arguments.valid, arguments.every)
    if arguments.counts:
        train, valid = arguments.counts
        counts = read_record(train)
        counts["kept"] -= moved
        train.write_text(json.dumps({**counts, "held_out": moved}), encoding="utf-8")
        valid.write_text(json.dumps({"read": moved, "kept": moved}), encoding="utf-8")
    print(f"{moved} pairs held out for validation")


if __name__ == "__main__":
    console.run(main)
