"""BLEU on validation over the length penalty, for several beams; search errors over beam, where they were counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

Curve = Mapping[float, float]


def draw(path: Path, penalties: Mapping[int, Curve], errors: Curve) -> None:
    """Write the picture, as PNG and as SVG.

    Args:
        path: of the PNG; the SVG stands beside it
        penalties: BLEU by the exponent of the length penalty, for each beam
        errors: share of search errors by beam, in percent; empty: they have not been counted
    """
    # The same bytes for the same figures.
    pyplot.rcParams["svg.hashsalt"] = "search"
    figure, axes = pyplot.subplots(1, 2 if errors else 1, figsize=(8 if errors else 4.5, 3.2), squeeze=False)
    left = axes[0, 0]
    for beam, curve in penalties.items():
        left.plot(list(curve), list(curve.values()), marker=".", label=f"beam {beam}")
    left.set(xlabel="length penalty a, log P / n^a", ylabel="BLEU, validation")
    left.legend(fontsize="small")
    if errors:
        right = axes[0, 1]
        right.plot(list(errors), list(errors.values()), marker="o")
        right.set(xlabel="beam", ylabel="sentences with a search error, %", xscale="log", ylim=(0, None))
        right.set_xticks(list(errors), [f"{beam:g}" for beam in errors])
        right.minorticks_off()
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)
