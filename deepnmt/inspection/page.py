"""The pictures of an inspection, and the page that holds them with the tables. Needs matplotlib.

Colours follow Okabe and Ito, who chose them to differ for every kind of colour vision. Each setting also has a marker
of its own. The colour map of the DLCL weights goes from blue, negative, over white to red.
"""

import base64
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import AsinhNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from deepnmt.inspection.table import COLUMNS, Report, cells, depth, title
from deepnmt.model.stack import STACKS
from deepnmt.pages import render

COLOURS = ("#000000", "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7", "#8c8c8c")
MARKERS = ("o", "s", "^", "v", "D", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")
MAP = "RdBu_r"
DPI = 90


@dataclass(frozen=True)
class Quantity:
    """A quantity against depth: its name in `Sublayer` and of the file, heading, label of the axis, explanation."""

    name: str
    heading: str
    axis: str
    text: str


QUANTITIES = (
    Quantity(
        "gradient_norm",
        "Gradient norm against depth",
        "|dLoss/dW| of a layer, L2",
        "The L2 norm of the gradient of all weights of a layer's sublayers, averaged over the batches. If it falls "
        "towards layer 1, the lower layers hardly learn.",
    ),
    Quantity(
        "error_norm",
        "Error norm against depth",
        "dLoss/dx' of a layer, root mean square",
        "The gradient of the loss with respect to the output of a layer: how much of the error reaches it.",
    ),
    Quantity(
        "activation_variance",
        "Activation variance against depth",
        "Var(x') of a layer's output",
        "The variance of a layer's output: 1 after a new layer norm, growing with depth in a pre-norm stack.",
    ),
    Quantity(
        "branch_share",
        "Share of the residual branch against depth",
        "Var(F) / (Var(w x) + Var(F))",
        "The sublayer F's share of the variance of a residual sum x + F(x), the mean over a layer's sublayers. 0 "
        "leaves the input as it is, 1 hides it.",
    ),
)


def pictures(reports: Sequence[Report]) -> dict[str, bytes]:
    """The pictures as PNG by the names of their files: one for each quantity, and one for each setting with DLCL."""
    drawn = {f"{quantity.name}.png": png(against_depth(reports, quantity), colours=96) for quantity in QUANTITIES}
    for label, connected in with_dlcl(reports).items():
        drawn[dlcl_name(label)] = png(heat_maps(connected), colours=256)
    return drawn


def page(reports: Sequence[Report], about: dict[str, str], drawn: dict[str, bytes]) -> str:
    """One self-contained HTML page of reports: facts about them, the results of `pictures`, tables of all sublayers."""
    return render(
        "inspection.html",
        title="What happens inside: " + ", ".join(dict.fromkeys(report.label for report in reports)),
        about=about,
        drawn={name: base64.b64encode(picture).decode() for name, picture in drawn.items()},
        quantities=QUANTITIES,
        connected={label: dlcl_name(label) for label in with_dlcl(reports)},
        columns=COLUMNS.values(),
        tables=[(title(report), cells(report)) for report in reports],
    )


def against_depth(reports: Sequence[Report], quantity: Quantity) -> Figure:
    """One quantity: a panel for each stack and depth, in it a line for each setting."""
    labels = list(dict.fromkeys(report.label for report in reports))
    columns = list(dict.fromkeys(depth(report) for report in by_depth(reports)))
    stacks = [stack for stack in STACKS if any(stack in report.depths for report in reports)]
    beside = max(4, 2 * len(columns))  # labels in a line of the legend
    size = (2.7 if len(columns) > 1 else 5.0, 2.0)
    top = 0.5 + 0.2 * math.ceil(len(labels) / beside)
    figure, panels = grid(stacks, len(columns), size, top, right=0.15, gap=0.25, sharey="row")
    for report in reports:
        column, style = columns.index(depth(report)), labels.index(report.label)
        for row, stack in enumerate(stacks):
            values = np.array(report.by_layer(stack, quantity.name), dtype=float)
            line(panels[row][column], values, style, report.label)
    for row, column in np.ndindex(len(stacks), len(columns)):
        panel = panels[row][column]
        panel.set_yscale("log", nonpositive="mask")
        if row == 0:
            panel.set_title(columns[column], fontsize="small")
        panel.set_xlabel(f"{stacks[row]} layer")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.grid(alpha=0.25)
    figure.supylabel(quantity.axis, fontsize="medium")
    handles = {name: handle for panel in panels[0] for handle, name in zip(*panel.get_legend_handles_labels())}
    figure.legend([handles[name] for name in labels], labels, loc="upper center", ncols=beside, fontsize="small")
    return figure


def line(panel: Any, values: Any, style: int, label: str) -> None:
    """The values of one setting against the number of the layer, which starts at 1."""
    step = max(1, len(values) // 8)
    panel.plot(
        np.arange(1, len(values) + 1),
        np.where(np.isfinite(values), values, np.nan),
        color=COLOURS[style % len(COLOURS)],
        marker=MARKERS[style % len(MARKERS)],
        linestyle=DASHES[style // len(COLOURS) % len(DASHES)],
        markevery=(style % step, step),
        markersize=4,
        linewidth=1.2,
        label=label,
    )


def heat_maps(reports: Sequence[Report]) -> Figure:
    """The DLCL weights of one setting: a panel for each stack and depth, all on one scale."""
    reports = by_depth(reports)
    stacks = [stack for stack in STACKS if any(stack in report.dlcl for report in reports)]
    figure, panels = grid(stacks, len(reports), size=(2.3, 2.3), top=0.4, right=1.3, gap=0.7)
    every = np.concatenate([np.ravel(matrix) for report in reports for matrix in report.dlcl.values()])
    largest = float(np.abs(every[np.isfinite(every)]).max(initial=0.0)) or 1.0
    scale = AsinhNorm(linear_width=largest / 50, vmin=-largest, vmax=largest)
    for row, column in np.ndindex(len(stacks), len(reports)):
        if stacks[row] in reports[column].dlcl:
            heat_map(panels[row][column], np.array(reports[column].dlcl[stacks[row]], dtype=float), scale)
        else:
            panels[row][column].set_axis_off()
        if row == 0:
            panels[row][column].set_title(depth(reports[column]), fontsize="small")
        panels[row][column].set_ylabel(f"{stacks[row]} row l")
    width = figure.get_figwidth()
    place = figure.add_axes((1 - 1.1 / width, 0.15, 0.2 / width, 0.7))
    figure.colorbar(ScalarMappable(scale, MAP), cax=place, label="weight W[l, k]")
    return figure


def heat_map(panel: Any, matrix: Any, scale: AsinhNorm) -> None:
    """One `W`; entries that a row cannot read are grey."""
    size = len(matrix)
    panel.set_facecolor("#d9d9d9")
    panel.imshow(
        np.ma.masked_array(matrix, np.triu(np.ones_like(matrix, dtype=bool), k=1)),
        cmap=MAP,
        norm=scale,
        extent=(-0.5, size - 0.5, size + 0.5, 0.5),
        interpolation="nearest",
    )
    panel.set_xlabel("output k, 0 the embedding")
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))


def by_depth(reports: Sequence[Report]) -> list[Report]:
    """Sort the reports, the shallowest first."""
    return sorted(reports, key=lambda report: list(report.depths.values()))


def grid(
    stacks: Sequence[str], columns: int, size: tuple[float, float], top: float, right: float, gap: float, **options: Any
) -> tuple[Figure, Any]:
    """A figure with a row of panels for each of at least one stack, all measures in inches.

    Placed by hand: matplotlib's layout engines take most of the time of a figure with many panels. `size` is the width
    and height of a panel, and `gap` the distance between panels of a row; matplotlib's `subplots` takes the options.
    """
    wide, high = size
    left, bottom, between = 1.0, 0.5, 0.6
    width = left + columns * wide + (columns - 1) * gap + right
    height = top + len(stacks) * high + (len(stacks) - 1) * between + bottom
    margins = {
        "left": left / width,
        "right": 1 - right / width,
        "bottom": bottom / height,
        "top": 1 - top / height,
        "wspace": gap / wide,
        "hspace": between / high,
    }
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots(len(stacks), columns, squeeze=False, gridspec_kw=margins, **options)


def png(figure: Figure, colours: int) -> bytes:
    """Return the file of a figure, with a palette of `colours`, which takes a third of the space."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    small = Image.open(file).convert("RGB").quantize(colours, dither=Image.Dither.NONE)
    file = io.BytesIO()
    small.save(file, format="png", optimize=True)
    return file.getvalue()


def with_dlcl(reports: Sequence[Report]) -> dict[str, list[Report]]:
    """By label, the reports that have DLCL weights."""
    connected: dict[str, list[Report]] = {}
    for report in reports:
        if report.dlcl:
            connected.setdefault(report.label, []).append(report)
    return connected


def dlcl_name(label: str) -> str:
    """Return the name of a picture; labels that differ only in odd characters get different names."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", label)
    return f"dlcl_weights_{plain}.png" if plain == label else f"dlcl_weights_{plain}_{label.encode().hex()}.png"
