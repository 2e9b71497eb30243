"""The rows of the study: one recipe each under configs/iwslt14, and what was published for it.

commands:
  rows.py list               all rows with what they are
  rows.py show ROW           how many checkpoints a row averages; an error for a name that is no row
  rows.py smoke ROW          the options of fairseq-train that make a row's training a matter of a minute
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = ROOT / "configs" / "iwslt14"
TABLES = Path(__file__).resolve().parents[1] / "tables"
REPORT = {
    "3.1": ("3.1-dlcl.csv", "DLCL"),
    "3.3": ("3.3-tfixup.csv", "T-Fixup"),
    "3.5": ("3.5-dlcl-tfixup.csv", "DLCL + T-Fixup"),
    "3.7": ("3.7-depth.csv", ""),
}
MODELS = {"dlcl": "DLCL, as 3.1/10", "dlcl+tfixup": "DLCL + T-Fixup, as 3.5/12"}
OTHERS = "others.csv"
# Narrow and short; depth, method and all else stay the row's.
SMOKE = {
    "encoder-embed-dim": 64,
    "decoder-embed-dim": 64,
    "encoder-ffn-embed-dim": 128,
    "decoder-ffn-embed-dim": 128,
    "max-tokens": 2048,
    "max-epoch": 6,
}
SMOKE_WARMUP = 40


@dataclass(frozen=True)
class Row:
    """A row, and its published figures as they are printed; empty: there is none."""

    name: str
    title: str
    bleu: str = ""
    last5: str = ""
    epochs: str = ""
    average: int = 5
    note: str = ""

    @property
    def recipe(self) -> Path:
        """The YAML file."""
        return CONFIGS / f"{self.name}.yaml"


def read_table(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file, by column."""
    return list(csv.DictReader(read_lines(TABLES / name)))


def all_rows() -> dict[str, Row]:
    """Every row by its name, in the order of the tables."""
    rows = [
        Row(
            f"{table}/{entry['row']}",
            f"{model or MODELS[entry['model']]}, {settings(entry)}",
            entry["bleu"],
            entry.get("last5", ""),
            entry.get("epochs_to_best", ""),
        )
        for table, (file, model) in REPORT.items()
        for entry in read_table(file)
    ]
    rows += [
        Row(
            entry["row"],
            f"{entry['method']}, {settings(entry)}",
            entry["bleu"],
            average=int(entry["average"]),
            note=entry["source"],
        )
        for entry in read_table(OTHERS)
    ]
    return {row.name: row for row in rows}


def settings(entry: dict[str, str]) -> str:
    """What a row of a CSV file sets, in a few words."""
    parts = [f"{entry['encoder_layers']} + {entry['decoder_layers']} layers"]
    if entry.get("norm") in ("post", "pre"):
        parts.append(f"{entry['norm']}-norm")
    if "dropout" in entry:
        parts.append("dropout " + "/".join(entry[name] for name in ("dropout", "attention_dropout", "relu_dropout")))
        parts.append(f"relative to {entry['max_relative_length']}" if entry["max_relative_length"] != "0" else "")
        parts.append(f"lr {entry['lr']}")
        parts.append("one table" if entry["share_all"] == "1" else "two tables")
    return ", ".join(filter(None, parts))


def find(name: str) -> Row:
    """A row by its name, or a `UserError`."""
    rows = all_rows()
    if name not in rows:
        raise UserError(f"ROW must be one of those that run.sh --list shows, such as 3.1/10, but is '{name}'")
    return rows[name]


def smoke(row: Row) -> list[str]:
    """Options of fairseq-train for a training on the CPU that takes a minute or a few."""
    # Here, since the package imports fairseq, which takes seconds.
    from deepnmt.recipe import read_recipe

    options = dict(SMOKE)
    if int(read_recipe(row.recipe).get("warmup-updates", ("0",))[0]):
        options["warmup-updates"] = SMOKE_WARMUP
    return [f"--{name}={value}" for name, value in options.items()]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("list", "show", "smoke"))
    parser.add_argument("row", nargs="?", default="", metavar="ROW")
    arguments = parser.parse_args()
    if arguments.command == "list":
        for row in all_rows().values():
            print(f"{row.name:<20} {row.bleu or '-':>6}  {row.title}")
    elif arguments.command == "show":
        print(find(arguments.row).average)
    else:
        print("\n".join(smoke(find(arguments.row))))


if __name__ == "__main__":
    console.run(main)
