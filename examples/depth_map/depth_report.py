"""The table and the pictures of the map of depth, from the folders of its runs: OUT/runs/TEXT/BUDGET/RECIPE/seedN.

A file keeps what the table and the pictures need, so that runs of several machines make one map.

Hours of a curve are updates times the core seconds of an update, as in the protocol. Hours in the table are the
processor time that the training really took, starts and validations included.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from curves import points

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.runs import map_of_depth, seeds
from deepnmt.text.columns import write_rows
from deepnmt.text.lines import read_lines, read_text, whole_text
from deepnmt.text.record import read_record

LAYERS = re.compile(r"_(\d+)$")
COLOURS = {"pre": "#0072b2", "dlcl": "#d55e00"}
STYLES = {4: ":", 12: "--", 24: "-"}
# Core hours that the map compares, of each text; other budgets are of runs that tune.
HOURS = {"ten": 1.0, "quarter": 0.25, "de": 0.25}
BUDGETS = {text: f"{hours:g}h" for text, hours in HOURS.items()}
SUBSETS = ("valid", "test")
COLUMNS = ("text", "budget", "recipe", "seed", "core hours", *SUBSETS, "losses")
PICTURES = ("losses.png", "depths.png")


class Run(NamedTuple):
    """A training: where it stands, validation loss in bits a token by update, core hours, and BLEU by subset."""

    text: str
    budget: str
    recipe: str
    seed: str
    losses: dict[int, float]
    hours: float
    bleu: dict[str, float]

    @classmethod
    def of(cls, line: str, where: str) -> Run:
        """Return the run in a line of the file. Raises `UserError`, which says `where`, for any other line."""
        try:
            text, budget, recipe, seed, hours, valid, test, losses = line.split("\t")
            bleu = {subset: float(score) for subset, score in zip(SUBSETS, (valid, test)) if score}
            known = {int(update): float(loss) for update, loss in (pair.split(":") for pair in losses.split())}
            return cls(text, budget, recipe, seed, known, float(hours), bleu)
        except ValueError:
            raise UserError(f"{where}: must be {', '.join(COLUMNS)} with tabs, but is '{line}'") from None

    def cells(self) -> list[str]:
        """Return the cells of its line in the file."""
        losses = " ".join(f"{update}:{loss:g}" for update, loss in self.losses.items())
        bleu = [f"{self.bleu[subset]:.2f}" if subset in self.bleu else "" for subset in SUBSETS]
        return [self.text, self.budget, self.recipe, self.seed, f"{self.hours:.4f}", *bleu, losses]

    @property
    def method(self) -> str:
        """The recipe without its depth: pre or dlcl."""
        return LAYERS.sub("", self.recipe)

    @property
    def layers(self) -> int:
        """The encoder layers in the recipe's name; 0 without a number."""
        found = LAYERS.search(self.recipe)
        return int(found[1]) if found else 0


def read_runs(folder: Path) -> Iterator[Run]:
    """Yield the runs of a folder that have been validated, in the order of their names."""
    for log in sorted(folder.glob("*/*/*/seed*/checkpoints/train.log")):
        place = log.parent.parent
        text, budget, recipe, seed = place.relative_to(folder).parts
        if losses := {point.update: point.nll for point in points(whole_text(log, "replace").split("\n"))}:
            seed = seed.removeprefix("seed")
            yield Run(text, budget, recipe, seed, losses, seeds.core_hours(place), seeds.scores(place))


def keep(runs: Iterable[Run], path: Path) -> list[Run]:
    """Return these runs and the others of a file, which then has all of them."""
    head, *lines = read_text(path) if path.is_file() else ["\t".join(COLUMNS)]
    if head.split("\t") != [*COLUMNS]:
        raise UserError(f"{path}:1: must be {', '.join(COLUMNS)} with tabs, but is '{head}'")
    known = [Run.of(line, f"{path}:{number}") for number, line in enumerate(lines, start=2)]
    found = {run[:4]: run for run in (*known, *runs)}
    if not found:
        raise UserError("no run has been validated yet")
    kept = [found[key] for key in sorted(found)]
    write_rows(path, [COLUMNS, *(run.cells() for run in kept)])
    return kept


def table(runs: Sequence[Run]) -> str:
    """Return a table in Markdown, a line for each run."""
    lines = ["| text | budget | recipe | seed | updates | core hours | loss, bits | valid BLEU | test BLEU |"]
    lines.append("| --- " * 9 + "|")
    for run in sorted(runs, key=lambda run: (run.text, run.budget, run.method, run.layers, run.seed)):
        update = max(run.losses)
        bleu = [f"{run.bleu[subset]:.2f}" if subset in run.bleu else "" for subset in SUBSETS]
        hours = "" if math.isnan(run.hours) else f"{run.hours:.2f}"
        cells = [run.text, run.budget, run.recipe, run.seed, str(update), hours]
        lines.append(f"| {' | '.join([*cells, f'{run.losses[update]:.3f}', *bleu])} |")
    return "\n".join(lines)


class Seconds:
    """Core seconds of an update by text and recipe, from a file with a line for each: TEXT RECIPE SECONDS."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises `UserError` for a faulty line."""
        self.path = path
        self.found: dict[tuple[str, str], float] = {}
        for number, line in enumerate(read_lines(path), start=1):
            text, recipe, seconds, *more = [*line.split(), "", "", ""][:4]
            if line.strip() and not line.startswith("#"):
                self.found[text, recipe] = value = console.as_number(seconds)
                if not 0 < value < math.inf or any(more):
                    raise UserError(f"{path}:{number}: must be TEXT RECIPE SECONDS, but is '{line.strip()}'")

    def of(self, text: str, recipe: str) -> float:
        """Return the seconds of an update. Raises `UserError` if the file does not have them."""
        # A quarter of the pairs has batches as all of them.
        key = text.replace("quarter", "ten"), recipe
        if key not in self.found:
            raise UserError(f"{self.path}: must have {' '.join(key)}, but does not")
        return self.found[key]


def gains(out: Path) -> list[map_of_depth.Gain]:
    """Return the differences on the test sets, of all recipes but the first of each text's comparison."""
    found = []
    paths = [(text, out / "runs" / text / budget / "test.json") for text, budget in BUDGETS.items()]
    for text, path in paths:
        if not path.is_file():
            continue
        counts = read_record(out / "data" / text / "preprocess.json", counts=dict)["counts"]
        first, *others = seeds.read(path)
        for row in others:
            error = math.sqrt(sum(each.deviation**2 / len(each.scores) for each in (first, row)))
            number = min(len(first.scores), len(row.scores))
            quantities = row.difference or 0.0, error, row.p or 1.0, number
            found.append(map_of_depth.Gain(counts["train"]["kept"], HOURS[text], first.recipe, row.recipe, *quantities))
    return found


def by_text(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs of the full budget, by their text."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.budget == BUDGETS.get(run.text):
            found.setdefault(run.text, []).append(run)
    return found


def figure_of(texts: Mapping[str, Sequence[Run]]) -> tuple[Any, Any]:
    """Return a figure with a panel for each text."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.6 + 3.2 * len(texts), 3.0), layout="constrained")
    return figure, figure.subplots(1, len(texts), squeeze=False)[0]


def finish(panel: Any) -> None:
    """Add grid and legend; before the first translation there are no curves of BLEU."""
    panel.grid(alpha=0.25, which="both")
    if panel.get_legend_handles_labels()[1]:
        panel.legend(fontsize="x-small")


def save(figure: Any, path: Path) -> None:
    """Write a figure."""
    with console.whole_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def draw_losses(texts: Mapping[str, Sequence[Run]], seconds: Seconds, path: Path) -> None:
    """Draw validation loss over core hours, a panel for each text."""
    figure, panels = figure_of(texts)
    for panel, (text, runs) in zip(panels, texts.items()):
        for run in runs:
            hours = [update * seconds.of(text, run.recipe) / 3600 for update in run.losses]
            style = {"color": COLOURS.get(run.method, "#000000"), "linestyle": STYLES.get(run.layers, "-.")}
            label = f"{run.method}, {run.layers} layers" if run.seed == "1" else None
            panel.plot(hours, list(run.losses.values()), label=label, linewidth=1.2, **style)
        panel.set(title=text, xlabel="core hours", ylabel="validation loss, bits a token", yscale="log")
        finish(panel)
    save(figure, path)


def mean_bleu(runs: Sequence[Run], method: str) -> list[tuple[int, float]]:
    """Return the mean over seeds of a method's BLEU on validation, by encoder layers."""
    found: dict[int, list[float]] = {}
    for run in runs:
        if run.method == method and "valid" in run.bleu:
            found.setdefault(run.layers, []).append(run.bleu["valid"])
    return [(layers, sum(found[layers]) / len(found[layers])) for layers in sorted(found)]


def draw_depths(texts: Mapping[str, Sequence[Run]], path: Path) -> None:
    """Draw BLEU on validation over depth at equal core hours, a panel for each text."""
    figure, panels = figure_of(texts)
    for panel, (text, runs) in zip(panels, texts.items()):
        for method, colour in COLOURS.items():
            if means := mean_bleu(runs, method):
                panel.plot(*zip(*means), "o-", color=colour, label=method, linewidth=1.2)
        panel.set(title=text, xlabel="encoder layers", ylabel="BLEU on validation")
        finish(panel)
    save(figure, path)


def main() -> None:
    """Print the table, and draw the pictures."""
    parser = console.Parser(console.program("report"), __doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of run.sh")
    parser.add_argument("--seconds", type=Path, required=True, metavar="FILE", help="core seconds of an update")
    parser.add_argument("--runs", type=Path, required=True, metavar="FILE", help="file that keeps all runs")
    parser.add_argument("--pictures", type=Path, required=True, metavar="FOLDER", help="folder for two PNG files")
    parser.add_argument("--gains", type=Path, metavar="FILE", help="file for the differences on the test sets")
    given = parser.parse_args()
    losses, depths = (given.pictures / name for name in PICTURES)
    for path in (given.runs, losses, depths, *([given.gains] if given.gains else [])):
        console.check_output(path)
    seconds = Seconds(given.seconds)
    runs = keep(read_runs(given.out / "runs"), given.runs)
    print(table(runs))
    if texts := by_text(runs):
        draw_losses(texts, seconds, losses)
        draw_depths(texts, depths)
    if given.gains and (found := gains(given.out)):
        pairs = {gain.pairs for gain in found}
        others = [gain for gain in map_of_depth.read(given.gains) if gain.pairs not in pairs]
        map_of_depth.write([*others, *found], given.gains)


if __name__ == "__main__":
    console.run(main)
