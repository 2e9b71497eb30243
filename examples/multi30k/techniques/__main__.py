"""Measure all techniques and write the table: see search.sh --help."""

from __future__ import annotations

import argparse
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.record import read_record
from techniques.first_pairs import first_pairs
from techniques.picture import Curve, draw
from techniques.plan import BEAMS, EXPONENTS, Models, techniques
from techniques.runs import VALID, Runs
from techniques.table import as_markdown, as_text, rows_of_table


def main() -> None:
    """Measure what has not been measured."""
    parser = argparse.ArgumentParser(prog="search.sh", add_help=False)
    for name in ("model", "data", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--more", type=Path, action="append", default=[])
    for name in ("--r2l", "--reverse", "--lm", "--errors"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    given = [arguments.model, *arguments.more, arguments.r2l, arguments.reverse, arguments.lm]
    for path in filter(None, given):
        if not path.is_file():
            raise UserError(f"{path}: no such checkpoint")
    if arguments.limit is not None and arguments.limit < 2:
        raise UserError(f"--limit: must be at least 2, but is {arguments.limit}")
    data, out = arguments.data, arguments.out
    if arguments.limit:
        first_pairs(data, arguments.limit, out / "data")
        data = out / "data"
    models = Models(arguments.model, tuple(arguments.more), arguments.r2l, arguments.reverse, arguments.lm)
    runs = Runs(data, out, models)
    found = [runs.technique(each) for each in techniques(models)]
    table = rows_of_table([*found, *runs.choices()])
    for name, text in (("table.tsv", as_text(table)), ("table.md", as_markdown(table))):
        with console.whole_file(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    draw_curves(runs, out / "search.png", arguments.errors)
    print(as_text(table), end="")


def draw_curves(runs: Runs, path: Path, errors: Path | None) -> None:
    """Draw BLEU on validation over length penalty and beam."""

    def bleu(name: str) -> float:
        return runs.scores(runs.out / "searches" / name / VALID)["BLEU"]

    penalties: dict[str, Curve] = {kind: {a: bleu(f"{kind}-{a}") for a in EXPONENTS} for kind in ("power", "gnmt")}
    draw(path, penalties, {beam: bleu(f"beam-{beam}") for beam in BEAMS}, shares(errors) if errors else {})


def shares(path: Path) -> Curve:
    """Return search errors in percent by beam, as search_errors.sh writes them."""
    figures = read_record(path, beams=list)["beams"]
    try:
        return {float(each["beam"]): 100 * float(each["search_errors"]) for each in figures}
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{path}: must be a search_errors.json of search_errors.sh, but is none") from None


if __name__ == "__main__":
    console.run(main, "search.sh")
