"""The table of run.sh: BLEU of each method, its gain over the pairs alone, and core hours."""

from __future__ import annotations

from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.runs.seeds import Row, core_hours, rows

PLAIN = "plain"
# Further trainings that a method needs.
NEEDS = {
    "back": ["reverse"],
    "set_weights": ["reverse"],
    "continued": [PLAIN],
    "supervised": [PLAIN, "reverse"],
    "on_the_fly": [PLAIN, "reverse"],
    "policy_gradient": [PLAIN, "reverse", "source_lm"],
    "masked": ["masked_encoder"],
    "fused": ["masked_encoder"],
    "mass": ["mass_text"],
    "together": ["reverse", "masked_encoder"],
}
HEADING = "| method | seeds | BLEU | gain | p | core hours |\n| --- | --- | --- | --- | --- | --- |"


def line(row: Row, runs: Path) -> str:
    """Return a method's line; hours are those of one seed, with the trainings that it needs."""
    hours = row.hours / len(row.scores) + sum(core_hours(runs / name / "seed1") for name in NEEDS.get(row.recipe, []))
    bleu = f"{row.mean:.2f}" + (f" ± {row.deviation:.2f}" if len(row.scores) > 1 else "")
    gain = "" if row.difference is None else f"{row.difference:+.2f}"
    p = "" if row.p is None else f"{row.p:.3f}"
    return f"| {row.recipe} | {len(row.scores)} | {bleu} | {gain} | {p} | {hours:.2f} |"


def main() -> None:
    """Write and print the table."""
    parser = console.Parser("gains.py", __doc__)
    parser.add_argument("runs", type=Path, help="folder of all trainings")
    parser.add_argument("subset", help="translated subset")
    parser.add_argument("table", type=Path, help="Markdown file to write")
    given = parser.parse_args()
    results = {
        folder.name: sorted(place.parent for place in folder.glob(f"seed*/update*.last*/{given.subset}/scores.json"))
        for folder in sorted(given.runs.iterdir())
    }
    plain = results.pop(PLAIN, [])
    if not plain:
        raise UserError("the group plain has not been run")
    table = rows({PLAIN: plain, **{name: folders for name, folders in results.items() if folders}})
    text = "\n".join([HEADING, *(line(row, given.runs) for row in table)]) + "\n"
    console.write_whole(given.table, text)
    print(text, end="")


if __name__ == "__main__":
    console.run(main)
