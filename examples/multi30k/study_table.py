"""Write the table of study.sh: what each row has reached on validation, and what it has cost."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from choices import CHOSEN, Choice
from curves import points

from deepnmt import console
from deepnmt.text.lines import whole_text

HEADER = ["row", "BLEU", "beam", "lenpen", "average", "NLL", "updates", "hours"]


def rows(folder: Path, names: Sequence[str]) -> list[list[str]]:
    """Return the table's lines.

    Args:
        folder: of the study
        names: of all rows, in their order; those without a result are left out
    """
    lines = [HEADER]
    for name in names:
        result = folder / "results" / name / "trained"
        if not (result / CHOSEN).is_file():
            continue
        choice = Choice.read(result)
        log = folder / "checkpoints" / name / "trained" / "train.log"
        curve = points(whole_text(log, errors="replace").splitlines())
        spent = [f"{curve[-1].nll:.3f}", str(curve[-1].update), f"{curve[-1].hours:.2f}"] if curve else ["", "", ""]
        # sweep.sh calls the average of the last N checkpoints lastN.pt.
        average = Path(choice.checkpoint).stem.removeprefix("last")
        lines.append([name, f"{choice.valid:.2f}", str(choice.beam), f"{choice.lenpen:g}", average, *spent])
    return lines


def main() -> None:
    """Write FOLDER/study.tsv, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+")
    given = parser.parse_args()
    lines = rows(given.folder, given.names)
    with console.whole_file(given.folder / "study.tsv") as temporary:
        temporary.write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        print("  ".join(value.rjust(width) for value, width in zip(line, widths)))


if __name__ == "__main__":
    console.run(main)
