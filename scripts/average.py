"""Average the parameters of several of fairseq's checkpoints of one training run.

A checkpoint counts once, whatever its number of copies: checkpoint_best.pt and checkpoint_last.pt are used
only for an update that no checkpointE.pt or checkpoint_E_U.pt holds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deepnmt import console
from deepnmt.checkpoints.averaging import BEST, LAST, NUMBERED, average_checkpoints, choose
from deepnmt.checkpoints.file import write
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError


def main() -> None:
    """Average what the command line says."""
    parser = console.Parser(
        description=__doc__,
        epilog="example: average.py checkpoints/de-en checkpoints/de-en/average.pt --last 5",
    )
    parser.add_argument("save_dir", type=Path, metavar="SAVE_DIR", help="fairseq's folder of checkpoints")
    parser.add_argument("output", type=Path, metavar="OUT.pt", help="the averaged checkpoint")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last", type=int, metavar="N", help="average the last N checkpoints")
    which.add_argument("--until-best", type=int, metavar="N", help=f"average the last N checkpoints up to {BEST}")
    which.add_argument("--around-best", type=int, metavar="N", help=f"average N checkpoints around {BEST}")
    arguments = parser.parse_args()
    output: Path = arguments.output
    if NUMBERED.fullmatch(output.name) or output.name in (BEST, LAST):
        raise UserError(f"OUT.pt must not be named like a checkpoint of the training, but is {output.name}")
    kinds = {"last": arguments.last, "until-best": arguments.until_best, "around-best": arguments.around_best}
    (kind, size), *_ = ((kind, size) for kind, size in kinds.items() if size is not None)
    paths = choose(arguments.save_dir, kind, size)
    # Not at the top: it imports fairseq, which takes seconds, and what is refused above is refused at once.
    from deepnmt.checkpoints.trained_model import check_model

    for path in paths:
        check_model(CheckpointState.of(path, numbers=False))
    print("averaging " + " ".join(path.name for path in paths), file=sys.stderr)
    write(average_checkpoints(paths), output)
    print(f"{output} is ready: {len(paths)} checkpoints averaged, {output.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    console.run(main)
