"""The table and the pictures of the map of depth, from the folders of its runs: OUT/runs/TEXT/BUDGET/RECIPE/seedN.

Hours of a curve are updates times the core seconds of an update, as in the protocol. Hours in the table are the
processor time that the training really took, starts and validations included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.lines import whole_text
from deepnmt.text.record import read_record

VALID = re.compile(r"\| valid \|.*\bnll_loss ([\d.]+) \|.*\bnum_updates (\d+)")
LAYERS = re.compile(r"_(\d+)$")
COLOURS = {"pre": "#0072b2", "dlcl": "#d55e00"}
STYLES = {4: ":", 12: "--", 24: "-"}


class Run(NamedTuple):
    """A training: where it stands, validation loss in bits a token by update, core hours, and BLEU by subset."""

    text: str
    budget: str
    recipe: str
    seed: str
    losses: dict[int, float]
    hours: float
    bleu: dict[str, float]

    @property
    def method(self) -> str:
        """The recipe without its depth: pre or dlcl."""
        return LAYERS.sub("", self.recipe)

    @property
    def layers(self) -> int:
        """The encoder layers in the recipe's name; 0 without a number."""
        found = LAYERS.search(self.recipe)
        return int(found[1]) if found else 0


def read_losses(log: str) -> dict[int, float]:
    """Return the validation losses of a log; where a training resumed from an earlier update, the later ones count."""
    losses: dict[int, float] = {}
    for loss, update in VALID.findall(log):
        losses = {key: value for key, value in losses.items() if key < int(update)}
        losses[int(update)] = float(loss)
    return losses


def read_runs(folder: Path) -> Iterator[Run]:
    """Yield the runs of a folder that have been validated, in the order of their names."""
    for log in sorted(folder.glob("*/*/*/seed*/checkpoints/train.log")):
        place = log.parent.parent
        text, budget, recipe, seed = place.relative_to(folder).parts
        if losses := read_losses(whole_text(log, "replace")):
            core = place / "core_seconds"
            hours = sum(map(float, whole_text(core).split())) / 3600 if core.is_file() else float("nan")
            bleu = {path.parent.name: read_record(path)["BLEU"]["score"] for path in place.glob("*/scores.json")}
            yield Run(text, budget, recipe, seed.removeprefix("seed"), losses, hours, bleu)


def table(runs: Sequence[Run]) -> str:
    """Return a table in Markdown, a line for each run."""
    lines = ["| text | budget | recipe | seed | updates | core hours | loss, bits | valid BLEU | test BLEU |"]
    lines.append("| --- " * 9 + "|")
    for run in sorted(runs, key=lambda run: (run.text, run.budget, run.method, run.layers, run.seed)):
        update = max(run.losses)
        bleu = [f"{run.bleu[subset]:.2f}" if subset in run.bleu else "" for subset in ("valid", "test")]
        cells = [run.text, run.budget, run.recipe, run.seed, str(update), f"{run.hours:.2f}"]
        lines.append(f"| {' | '.join([*cells, f'{run.losses[update]:.3f}', *bleu])} |")
    return "\n".join(lines)


def read_seconds(path: Path) -> dict[tuple[str, str], float]:
    """Return the core seconds of an update by text and recipe, from a file with a line for each."""
    rows = [line.split() for line in whole_text(path).split("\n") if line and not line.startswith("#")]
    found = {(text, recipe): float(seconds) for text, recipe, seconds in rows}
    return found | {("quarter", recipe): seconds for (text, recipe), seconds in found.items() if text == "ten"}


def by_text(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs of the full budget, by their text."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run.budget.startswith("1h"):
            found.setdefault(run.text, []).append(run)
    return found


def figure_of(texts: Mapping[str, Sequence[Run]]) -> tuple[Any, Any]:
    """Return a figure with a panel for each text."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(0.6 + 3.2 * len(texts), 3.0), layout="constrained")
    return figure, figure.subplots(1, len(texts), squeeze=False)[0]


def draw_losses(texts: Mapping[str, Sequence[Run]], seconds: Mapping[tuple[str, str], float], path: Path) -> None:
    """Draw validation loss over core hours, a panel for each text."""
    figure, panels = figure_of(texts)
    for panel, (text, runs) in zip(panels, texts.items()):
        for run in runs:
            hours = [update * seconds[text, run.recipe] / 3600 for update in run.losses]
            style = {"color": COLOURS.get(run.method, "#000000"), "linestyle": STYLES.get(run.layers, "-.")}
            label = f"{run.method}, {run.layers} layers" if run.seed == "1" else None
            panel.plot(hours, list(run.losses.values()), label=label, linewidth=1.2, **style)
        panel.set(title=text, xlabel="core hours", ylabel="validation loss, bits a token", yscale="log")
        panel.legend(fontsize="x-small")
        panel.grid(alpha=0.25, which="both")
    figure.savefig(path, dpi=110)


def draw_depths(texts: Mapping[str, Sequence[Run]], path: Path) -> None:
    """Draw BLEU on validation over depth at equal core hours, a panel for each text."""
    figure, panels = figure_of(texts)
    for panel, (text, runs) in zip(panels, texts.items()):
        for method, colour in COLOURS.items():
            points = sorted(
                (run.layers, run.bleu["valid"]) for run in runs if run.method == method and "valid" in run.bleu
            )
            panel.plot(*zip(*points), "o-", color=colour, label=method, linewidth=1.2) if points else None
        panel.set(title=text, xlabel="encoder layers", ylabel="BLEU on validation")
        panel.legend(fontsize="x-small")
        panel.grid(alpha=0.25)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the table, and draw the pictures."""
    parser = console.Parser(console.program("report"), __doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="folder of run.sh")
    parser.add_argument("--seconds", type=Path, required=True, metavar="FILE", help="core seconds of an update")
    parser.add_argument("--pictures", type=Path, required=True, metavar="FOLDER", help="folder for two PNG files")
    given = parser.parse_args()
    runs = list(read_runs(given.out / "runs"))
    if not runs:
        raise UserError(f"{given.out}/runs: no run has been validated yet")
    print(table(runs))
    if texts := by_text(runs):
        draw_losses(texts, read_seconds(given.seconds), given.pictures / "losses.png")
        draw_depths(texts, given.pictures / "depths.png")


if __name__ == "__main__":
    console.run(main)
