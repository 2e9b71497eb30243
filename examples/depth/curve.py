"""The loss curve in a log of fairseq-train: a line "update bits" every so many updates."""

from __future__ import annotations

import re
from pathlib import Path

from deepnmt import console
from deepnmt.text.lines import whole_text

LINE = re.compile(r"\| train_inner \|.* nll_loss=([^,]+), .*num_updates=(\d+),")


def read_curve(log: str) -> dict[int, float]:
    """Update number to loss in bits a token (not smoothed), averaged since the line before.

    Where a training was stopped and went on, the last of several lines for one update counts.
    """
    found = {int(update): float(loss) for loss, update in LINE.findall(log)}
    return dict(sorted(found.items()))


def main() -> None:
    """Print the curve."""
    parser = console.Parser(description=__doc__)
    parser.add_argument("log", type=Path, help="train.log")
    curve = read_curve(whole_text(parser.parse_args().log))
    for update, loss in curve.items():
        print(f"{update} {loss:g}")


if __name__ == "__main__":
    console.run(main)
