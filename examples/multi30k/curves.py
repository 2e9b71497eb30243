"""Draw BLEU and loss on validation against hours of training, from the logs of several trainings.

Hours are those of the updates themselves, without validation, start, and time that the machine was off. A training that
begins with the checkpoint of another one follows it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.lines import whole_text

INTERVAL = re.compile(r"\| train_inner \|.*\bnum_updates=(\d+),.*\btrain_wall=([\d.]+)")
VALID = re.compile(r"\| valid \|.*\bnll_loss ([\d.]+) \|.*\bnum_updates (\d+)")
BLEU = re.compile(r"\| bleu ([\d.]+) \|")
START = re.compile(r"'finetune_from_model': '([^']+)'")


class Point(NamedTuple):
    """A validation: updates and hours of training before it, NLL in bits a token, and BLEU if there is one."""

    update: int
    hours: float
    nll: float
    bleu: float | None


def points(lines: Iterable[str]) -> list[Point]:
    """Return the validations of a training, which may have been stopped and resumed.

    Args:
        lines: of its log
    """
    seconds: dict[int, float] = {}  # of the interval that ends with an update
    losses: dict[int, tuple[float, float | None]] = {}
    for line in lines:
        if match := INTERVAL.search(line):
            update = int(match[1])
            # What follows has been thrown away, if the training resumed from before it.
            seconds = {key: value for key, value in seconds.items() if key < update}
            seconds[update] = float(match[2])
        elif match := VALID.search(line):
            update = int(match[2])
            losses = {key: value for key, value in losses.items() if key < update}
            bleu = BLEU.search(line)
            losses[update] = float(match[1]), float(bleu[1]) if bleu else None
    result = []
    for update, (nll, bleu_score) in losses.items():
        spent = sum(value for key, value in seconds.items() if key <= update)
        result.append(Point(update, spent / 3600, nll, bleu_score))
    return result


def begins_with(text: str) -> Path | None:
    """Return the checkpoint, NAME/trained/checkpoint.pt, that a training begins with, by its log, or None."""
    found = START.findall(text)
    return Path(found[-1]) if found else None


def name_of(checkpoint: Path) -> str:
    """Return the name of a checkpoint's training."""
    return checkpoint.parent.parent.name


def one_after_the_other(
    found: Mapping[str, Sequence[Point]], starts: Mapping[str, str | None]
) -> dict[str, list[Point]]:
    """Return trainings with the hours of those that they begin with before their own.

    Args:
        found: the points of each by itself, by name
        starts: the names of those that they begin with; unknown ones count as nothing
    """

    def before(name: str) -> float:
        first = starts.get(name)
        # One of the same name is elsewhere.
        return before(first) + found[first][-1].hours if first and first != name and found.get(first) else 0.0

    return {
        name: [point._replace(hours=point.hours + before(name)) for point in curve] for name, curve in found.items()
    }


def limits(curves: Mapping[str, Sequence[tuple[float, float]]], reach: float) -> tuple[float, float]:
    """Return the ends of the vertical axis: where trainings end is what differs, not where they begin.

    Args:
        curves: hours and values, by name
        reach: how far below the highest value it goes, or, if negative, above the lowest one
    """
    values = [value for curve in curves.values() for _, value in curve]
    low, high = min(values), max(values)
    low, high = (max(low, high - reach), high) if reach > 0 else (low, min(high, low - reach))
    room = 0.03 * (high - low) or 0.5
    return low - room, high + room


def recipes(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the trainings of each recipe, a training being named RECIPE-SEED, or as it likes."""
    result: dict[str, list[str]] = {}
    for name in names:
        recipe, _, seed = name.rpartition("-")
        result.setdefault(recipe if recipe and seed.isdigit() else name, []).append(name)
    return result


def draw(path: Path, value: str, curves: Mapping[str, Sequence[tuple[float, float]]], reach: float) -> None:
    """Write a picture, in which the seeds of a recipe have one colour.

    Args:
        path: SVG to write
        value: what the vertical axis shows
        curves: hours and values, by name
        reach: of the vertical axis, as for `limits`
    """
    import matplotlib

    matplotlib.use("svg")
    # The same picture each time.
    matplotlib.rcParams["svg.hashsalt"] = "deepnmt"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    for number, (recipe, names) in enumerate(recipes(curves).items()):
        label = f"{recipe} ({len(names)} seeds)" if len(names) > 1 else recipe
        for name in names:
            axes.plot(*zip(*curves[name]), color=f"C{number}", linewidth=1, label=label)
            label = "_"  # not in the legend
    axes.set(xlabel="hours of training", ylabel=value, ylim=limits(curves, reach))
    axes.legend()
    with console.whole_file(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    """Draw the trainings of best.sh."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="OUT/best: its checkpoints/*/trained/train.log; gets bleu.svg, loss.svg"
    )
    parser.add_argument(
        "more", type=Path, nargs="*", help="further logs, named after their folders; missing ones are left out"
    )
    given = parser.parse_args()
    logs = {path.parent.parent.name: path for path in sorted(given.folder.glob("checkpoints/*/trained/train.log"))}
    logs |= {path.parent.name: path for path in given.more if path.is_file()}
    texts = {name: whole_text(path, errors="replace") for name, path in logs.items()}
    starts = {name: begins_with(text) for name, text in texts.items()}
    # Of those that are elsewhere, which this folder's pictures do not show, the hours count.
    elsewhere = {name_of(start): start.parent / "train.log" for start in starts.values() if start}
    texts |= {
        name: whole_text(path, errors="replace")
        for name, path in elsewhere.items()
        if name not in texts and path.is_file()
    }
    found = one_after_the_other(
        {name: points(text.splitlines()) for name, text in texts.items()},
        {name: name_of(start) if start else None for name, start in starts.items()},
    )
    found = {name: found[name] for name in logs}
    if not logs:
        raise UserError(f"{given.folder}: must have checkpoints/*/trained/train.log, but has none")
    if not any(found.values()):
        # As after a trial of fewer epochs than a recipe has from one validation to the next.
        print(f"nothing to draw: {', '.join(logs)}: without validation")
        return
    losses = {name: [(point.hours, point.nll) for point in curve] for name, curve in found.items() if curve}
    draw(given.folder / "loss.svg", "NLL on validation, bits a subword", losses, -1.5)
    scores = {
        name: [(point.hours, point.bleu) for point in curve if point.bleu is not None] for name, curve in found.items()
    }
    if any(scores.values()):
        draw(
            given.folder / "bleu.svg",
            "BLEU on validation",
            {name: curve for name, curve in scores.items() if curve},
            15,
        )
    print(f"drawn: {', '.join(losses)}")


if __name__ == "__main__":
    console.run(main)
