"""`deepnmt average`: write the mean of several checkpoints of one training as one checkpoint."""

from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, program, whole

MOST = 10**6  # checkpoints
DESCRIPTION = """Average checkpoints of one training (fairseq's --save-dir) into OUT.pt, which has the size of one
model: it holds no optimizer state. It serves wherever fairseq takes a checkpoint. No update is counted twice:
checkpoint_best.pt and checkpoint_last.pt count only if their update has no checkpointE.pt or checkpoint_E_U.pt."""
EPILOG = """An existing OUT.pt is replaced when the new one is complete.

example:
  deepnmt average checkpoints/de-en checkpoints/de-en/average.pt --last 5"""
# Options; exactly one must be given.
WHICH = {
    "--last": "number of the last checkpoints to average",
    "--until-best": "number of checkpoints up to the best by validation (checkpoint_best.pt), as --validate-average N "
    "validates them",
    "--around-best": "number of consecutive checkpoints with the best in the middle; too near the start or the end of "
    "the training, the first or the last N",
}


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program("average"), DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("save", type=Path, metavar="SAVE_DIR", help="folder of the training's checkpoints")
    add("output", type=Path, metavar="OUT.pt", help="checkpoint to write")
    group = parser.add_mutually_exclusive_group(required=True)
    for name, text in WHICH.items():
        group.add_argument(name, dest=name, type=whole(name, 1, MOST), metavar="N", help=text)
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Average the checkpoints that a command line names."""
    given = parser().parse_args(words)
    ((kind, number),) = ((name, value) for name, value in vars(given).items() if name in WHICH and value is not None)
    # Here, since it imports torch.
    from deepnmt.checkpoints.averaging import write_average

    paths = write_average(given.save, given.output, kind[2:], number)
    size = given.output.stat().st_size
    print(f"{given.output} is ready: {len(paths)} checkpoints averaged, {size / 1e6:.1f} MB")
