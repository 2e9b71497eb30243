"""Time and memory of a training at several depths, from a few updates at some of them.

Between layers nothing changes with depth. Time and memory are therefore affine in the number of layers L,

    f(L) = f(0) + L g,

and a line through two depths gives all others. The deepest one of several is never run.
"""

import json
import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from deepnmt.console import check_output, whole_file
from deepnmt.errors import UserError
from deepnmt.jobs.child_steps import module
from deepnmt.text.columns import in_columns

Costs = dict[int, dict[str, float]]
# Quantities of a probe that change with depth.
BY_DEPTH = ("parameters", "optimizer", "rest", "memory", "seconds", "processor seconds", "validation")
UPDATES = 10
GPU = "gpu="  # before the name or the numbers of a GPU, among what a probe measures
GIB, HOUR = 2**30, 3600
ERROR = "deepnmt plan: error: "


def depths_to_run(depths: Sequence[int]) -> list[int]:
    """Return the depths to measure: the lowest, and the one nearest to half of the deepest.

    Of two depths, both are run if the lower one is nearest to that half; a single depth is run itself.
    """
    lowest, deepest = min(depths), max(depths)
    middle = min(depths, key=lambda depth: abs(depth - deepest / 2))
    return sorted({lowest, deepest if middle == lowest else middle})


class Plan(NamedTuple):
    """The costs of a training at several depths.

    Attributes:
        costs: quantities at each depth
        measured: depths with updates of their own; the others lie on the line through these
        note: reason why the growth of the process is unknown; empty: it is known, or does not count
    """

    costs: Costs
    measured: list[int]
    note: str = ""


def plan(recipe: Path, data: str, depths: Sequence[int], options: Sequence[str], gpu: str = "") -> Plan:
    """Measure a few updates at one or two depths.

    Args:
        recipe: YAML file
        data: data folder
        depths: numbers of encoder layers; none: the recipe's own
        options: of fairseq-train
        gpu: GPU to estimate for, by name or numbers; empty: this machine

    Raises:
        UserError: a training of the recipe would fail
    """
    what = f"{GPU}{gpu}" if gpu else "costs"
    if depths:
        measured = {depth: probe(recipe, data, depth, options, what) for depth in depths_to_run(depths)}
    else:
        own = probe(recipe, data, None, options, what)
        depths = [int(own["encoder layers"])]
        measured = {depths[0]: own}
    growth, note = 0.0, ""
    if not gpu:
        try:
            growth = probe(recipe, data, 1, options, "growth")["growth"]
        except UserError as error:
            note = str(error).splitlines()[0]
    return Plan(costs(measured, depths, growth), list(measured), note)


def probe(recipe: Path, data: str, depth: int | None, options: Sequence[str], what: str = "costs") -> dict[str, float]:
    """Return the measurements of `update_probe` at a depth, or at the recipe's own. Raises `UserError` if it fails."""
    layers = [] if depth is None else [f"--encoder-layers={depth}"]
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if what.startswith(GPU) else {}
    with TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        words = [what, recipe, data, result, *options, *layers]
        done = subprocess.run(
            module("deepnmt.runs.update_probe", words),
            env={"MALLOC_MMAP_THRESHOLD_": str(2**17), **os.environ, **hidden},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        if not result.is_file():
            said = [line.removeprefix(ERROR) for line in done.stderr.splitlines() if line.startswith(ERROR)]
            lines = done.stderr.strip().splitlines() if done.returncode > 0 else []
            last = [f"status {done.returncode}, perhaps for lack of memory", *lines][-1]
            where = "at the recipe's depth" if depth is None else f"at a depth of {depth}"
            raise UserError(*(said or [f"updates {where} failed: {last}"]))
        found: dict[str, float] = json.loads(result.read_bytes())
    return found


def costs(measured: Mapping[int, Mapping[str, float]], depths: Sequence[int], more: float = 0.0) -> Costs:
    """Return the quantities at all depths: as measured, or on the line through the measured ones.

    The line gives no less than has been measured: layers need more, and noise must not make a negative time.

    Args:
        more: bytes by which the training grows, at any depth
    """
    result: Costs = {}
    for depth in depths:
        nearest = measured[min(measured, key=lambda known: abs(known - depth))]
        result[depth] = dict(nearest)
        if depth not in measured:
            for name in BY_DEPTH:
                slope, start = np.polyfit(list(measured), [each[name] for each in measured.values()], 1)
                least = min(each[name] for each in measured.values())
                result[depth][name] = max(least, float(start + slope * depth))
        for name in ("memory", "rest"):
            result[depth][name] += more
    return result


def hours(cost: Mapping[str, float]) -> float:
    """Return the hours to the end of the recipe, with validations; infinite if it has no end."""
    updates = cost["updates"]
    return (updates * cost["seconds"] + cost["validations"] * cost["validation"]) / HOUR if updates else math.inf


def largest_batch(cost: Mapping[str, float]) -> int:
    """Return how many tokens of a batch fit into the free memory; 0 if the recipe does not limit tokens."""
    room = max(0.0, cost["available"] - cost["rest"])
    # A tiny model's batch may need less than its process happens to have.
    return int(cost["max tokens"] * room / max(1.0, cost["memory"] - cost["rest"]))


def table(plan: Plan, source: str = f"{UPDATES} updates") -> list[str]:
    """Return the lines of a table, a depth each; `source` is where the measured depths come from."""
    rows = [["layers", "parameters", "memory", "optimizer", "s/update", "core s", "epoch", "hours", "max-tokens",
             "from"]]  # fmt: skip
    for depth, cost in plan.costs.items():
        time, tokens = hours(cost), largest_batch(cost)
        rows.append([
            str(depth), f"{cost['parameters']:,.0f}", f"{cost['memory'] / GIB:.2f} GiB",
            f"{cost['optimizer'] / GIB:.3f} GiB", f"{cost['seconds']:.3f}",
            f"{cost['processor seconds']:.3f}" if cost["processor seconds"] else "-", f"{cost['updates an epoch']:.0f}",
            f"{time:.2f}" if math.isfinite(time) else "-", str(tokens) if tokens else "-",
            source if depth in plan.measured else "line",
        ])  # fmt: skip
    return list(in_columns(rows))


def formula(plan: Plan) -> list[str]:
    """Return the lines that the table's extrapolated figures lie on; none for a single depth."""
    found, low, high = plan.costs, min(plan.measured), max(plan.measured)
    if low == high:
        return []
    lines = []
    for name, unit, size in (("memory", "GiB", GIB), ("seconds", "s/update", 1)):
        slope = (found[high][name] - found[low][name]) / (high - low) / size
        lines.append(f"{name}: {found[low][name] / size - slope * low:.4g} + {slope:.4g} L {unit}")
    return lines


def falling(plan: Plan) -> list[str]:
    """Return the quantities that are less at the deeper of two measured depths, as only a disturbance can make them."""
    low, high = min(plan.measured), max(plan.measured)
    return [name for name in ("memory", "seconds") if plan.costs[high][name] < plan.costs[low][name]]


def check_picture(path: Path) -> None:
    """Raise `UserError` if a picture could not be written, or `ImportError` without matplotlib."""
    import matplotlib  # noqa: F401

    check_output(path)


def picture(plan: Plan, path: Path) -> None:
    """Draw seconds and memory over depth as a PNG, SVG or PDF file, measured depths filled."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 2.8), layout="constrained")
    panels: Any = figure.subplots(1, 2)
    for panel, name, label, size in zip(panels, ("seconds", "memory"), ("seconds an update", "memory, GiB"), (1, GIB)):
        values = {depth: cost[name] / size for depth, cost in plan.costs.items()}
        panel.plot(list(values), list(values.values()), color="#0072b2", linewidth=1)
        for depth, value in values.items():
            fill = "#0072b2" if depth in plan.measured else "white"
            panel.plot(depth, value, "o", color="#0072b2", markerfacecolor=fill)
        panel.set_xlabel("encoder layers")
        panel.set_ylabel(label)
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.25)
    with whole_file(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=120)
