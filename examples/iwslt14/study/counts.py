"""Hold the numbers of pairs in a data folder against those of the standard split, and say what a difference means."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from deepnmt import console
from deepnmt.text.record import read_record

STANDARD = {"train": 160_239, "valid": 7_283, "test": 6_750}
# sacremoses and Moses' own tokeniser disagree on few sentences; more than that is another text.
CLOSE = 0.005


def explain(counts: dict[str, dict[str, int]]) -> Iterator[str]:
    """Lines for the user.

    Args:
        counts: of each split, as preprocess.json has them
    """
    got = {split: counts[split]["kept"] for split in STANDARD}
    for split, number in got.items():
        note = "" if number == STANDARD[split] else f", where the standard split has {STANDARD[split]:,}"
        yield f"{split}: {number:,} pairs{note}"
    if got == STANDARD:
        yield "This is the standard split."
        return
    train, test = counts["train"], counts["test"]
    if got["test"] != STANDARD["test"]:
        yield (
            f"The test set differs, {test['read']:,} pairs read and {test['empty']:,} of them with an empty side: "
            "the archive is not the official one, and no score can be compared with a published one."
        )
    elif abs(got["train"] - STANDARD["train"]) <= CLOSE * STANDARD["train"]:
        yield (
            "The test set is the standard one. The training text is as good as the same: sacremoses cuts a few "
            "sentences otherwise than Moses' Perl tokeniser, so that others exceed the limits of length and ratio "
            f"({train['read']:,} pairs read; {train['empty']:,} with an empty side, {train['too_long']:,} too long and "
            f"{train['ratio']:,} by ratio left out)."
        )
    else:
        yield (
            f"The training text differs by more than a tokeniser explains ({train['read']:,} pairs read): the archive "
            "is not the official one, and no score can be compared with a published one."
        )


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, metavar="DATA", help="folder made by prepare.sh")
    record: dict[str, Any] = read_record(parser.parse_args().data / "preprocess.json", counts=dict)
    for line in explain(record["counts"]):
        print(line)


if __name__ == "__main__":
    console.run(main)
