"""Gather the finished rows of the study into one table, beside what was published: OUT/report.md and OUT/report.html.

Nothing is estimated: a row that was not run says so.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from deepnmt import console
from deepnmt.errors import UserError
from study.pages import Table, to_html, to_markdown
from study.results import Run, read_runs, spread
from study.rows import Row, all_rows
from study.significance import Difference, compare

COLUMNS = (
    "row",
    "what",
    "published",
    "BLEU",
    "last 5",
    "split",
    "sacreBLEU",
    "epochs to the best",
    "hours",
    "seeds",
)
LEGEND = (
    "published: BLEU; where the source says so, the average of the last five checkpoints and the epochs to the best.",
    "BLEU: tokenised, of the epoch with the best validation loss; last 5: of the average of the last five epochs "
    "(of ten where marked); split: of that average, with compounds split at hyphens; sacreBLEU: of that average, "
    "detokenised, case-insensitive. Beam and length penalty were chosen by BLEU on the validation set.",
    "With several seeds, the mean and the standard deviation (of a sample). Epochs and hours are means; hours count "
    "training and its validations.",
)


SMOKE = (
    "This is a trial of the flow by run.sh --smoke: narrow models, six epochs, a generated text. Its figures say "
    "nothing about the rows, and cannot be held against the published ones."
)


def same_training(rows: list[Row]) -> dict[str, str]:
    """For each row, the first row whose recipe expands to the same options: one training serves both."""
    from deepnmt.recipe import read_recipe, to_arguments

    first: dict[tuple[str, ...], str] = {}
    return {row.name: first.setdefault(tuple(sorted(to_arguments(read_recipe(row.recipe)))), row.name) for row in rows}


def published(row: Row) -> str:
    """What was published for a row."""
    parts = [row.bleu or "-", f"last 5 {row.last5}" if row.last5 else "", f"{row.epochs} epochs" if row.epochs else ""]
    return ", ".join(filter(None, parts))


def cells(row: Row, runs: list[Run], begun: list[int]) -> list[str]:
    """The measured part of a row of the table."""
    sound = [run for run in runs if not run.failed]
    broken = [run.seed for run in runs if run.failed]
    remarks = [
        f"{what} (seed {', '.join(map(str, seeds))})"
        for what, seeds in (("failed", broken), ("unfinished", begun))
        if seeds
    ]
    if not sound:
        return ["; ".join(remarks) or "not run", *[""] * 5, ", ".join(str(run.seed) for run in runs)]
    ten = " (ten)" if row.average == 10 else ""
    return [
        "; ".join([spread([run.score("best", "bleu") for run in sound]), *remarks]),
        spread([run.score("average", "bleu") for run in sound]) + ten,
        spread([run.score("average", "compounds") for run in sound]),
        spread([run.score("average", "sacrebleu") for run in sound]),
        spread([run.record["best_epoch"] for run in sound], 1 if len(sound) > 1 else 0),
        spread([run.record["hours"] for run in sound]),
        ", ".join(str(run.seed) for run in sound),
    ]


def difference(found: Difference | None) -> str:
    """How a row stands to the baseline."""
    return f"{found.bleu:+.2f} (p = {found.p_value:.3f}, seed {found.seed})" if found else ""


def notes(runs: dict[str, list[Run]]) -> list[str]:
    """What the table leaves out: options beside the recipe, failures, versions."""
    lines = []
    for name, found in runs.items():
        for options in dict.fromkeys(" ".join(run.record["options"]) for run in found):
            if options:
                lines.append(f"{name} was run with {options}")
        lines += [f"{name}, seed {run.seed}: {run.failed}" for run in found if run.failed]
    used = dict.fromkeys(
        ", ".join(f"{key} {value}" for key, value in run.record["versions"].items())
        for found in runs.values()
        for run in found
    )
    return [*lines, *(f"run with {versions}" for versions in used)]


def make_table(output: Path, baseline: str, samples: int, smoke: bool = False) -> Table:
    """The whole table; of a trial it says that it is one.

    Raises:
        UserError: the baseline is not a row, or has not been run
    """
    rows = all_rows()
    if baseline and baseline not in rows:
        raise UserError(f"--baseline must be a row that run.sh --list shows, such as 3.1/10, but is '{baseline}'")
    found = {name: read_runs(output, row) for name, row in rows.items()}
    shared = same_training(list(rows.values()))
    used = {name: next((n for n in rows if shared[n] == shared[name] and found[n][0]), name) for name in rows}
    # A row's own trainings come before those of one that is the same.
    used = {name: name if found[name][0] else other for name, other in used.items()}
    runs = {name: found[used[name]][0] for name in rows}
    tests: dict[str, Difference] = {}
    if baseline:
        if not any(not run.failed for run in runs[baseline]):
            raise UserError(f"--baseline must be a row that has been run, but {baseline} has not")
        others = {name: trained for name, trained in runs.items() if used[name] != used[baseline]}
        tests = compare(runs[baseline], others, samples)
    table = Table([*COLUMNS, *([f"against {baseline}"] if baseline else [])])
    for name, row in rows.items():
        what = row.title + (f" (the training of {used[name]})" if used[name] != name else "")
        last = [difference(tests.get(name))] if baseline else []
        table.rows.append([name, what, published(row), *cells(row, runs[name], found[name][1]), *last])
    done = sum(1 for name in rows if runs[name])
    table.notes = [*([SMOKE] if smoke else []), f"{done} of {len(rows)} rows have been run.", *LEGEND]
    if baseline:
        table.notes.append(
            f"against {baseline}: difference in tokenised BLEU of the averages, and the p-value of sacrebleu's paired "
            f"bootstrap with {samples} samples."
        )
    table.notes += notes({name: found[name][0] for name in rows})
    return table


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, metavar="OUT", help="the folder of run.sh")
    parser.add_argument("--baseline", default="", metavar="ROW", help="row to test the others against")
    parser.add_argument(
        "--samples", type=int, default=1000, metavar="N", help="bootstrap samples (default: %(default)s)"
    )
    parser.add_argument("--smoke", action="store_true", help="say that OUT is of run.sh --smoke")
    arguments = parser.parse_args()
    output: Path = arguments.output
    if not output.is_dir():
        raise UserError(f"OUT must be the folder of run.sh, but there is no '{output}'")
    if arguments.samples < 1:
        raise UserError(f"--samples must be at least 1, but is {arguments.samples}")
    table = make_table(output, arguments.baseline, arguments.samples, arguments.smoke)
    title = "Trial of the IWSLT14 study, on generated text" if arguments.smoke else "IWSLT14, German to English"
    for name, text in (("report.md", to_markdown(title, table)), ("report.html", to_html(title, table))):
        with console.whole_file(output / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    print(to_markdown(title, table))
    print(f"{output / 'report.md'} and {output / 'report.html'} are ready")


if __name__ == "__main__":
    console.run(main)
