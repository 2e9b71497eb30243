"""BLEU on validation over length penalty and over beam; search errors over beam, where they have been counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot

Curve = Mapping[float, float]


def draw(path: Path, penalties: Mapping[str, Curve], beams: Curve, errors: Curve) -> None:
    """Write the picture.

    Args:
        path: PNG to write
        penalties: BLEU by length penalty, of each kind
        beams: BLEU by beam
        errors: share of search errors by beam, in percent; empty: they have not been counted
    """
    figure, axes = pyplot.subplots(1, 3 if errors else 2, figsize=(9 if errors else 7, 3), layout="constrained")
    for name, curve in penalties.items():
        axes[0].plot(list(curve), list(curve.values()), marker="o", label=name)
    axes[0].set(xlabel="length penalty a", ylabel="BLEU, validation")
    axes[0].legend()
    axes[1].plot(list(beams), list(beams.values()), marker="o")
    axes[1].set(xlabel="beam", ylabel="BLEU, validation", xscale="log")
    axes[1].set_xticks(list(beams), [f"{beam:g}" for beam in beams])
    if errors:
        axes[2].plot(list(errors), list(errors.values()), marker="o")
        axes[2].set(xlabel="beam", ylabel="search errors, %", xscale="log")
        axes[2].set_xticks(list(errors), [f"{beam:g}" for beam in errors])
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
