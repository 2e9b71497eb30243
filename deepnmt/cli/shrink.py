"""`deepnmt shrink`: make a shallower checkpoint from a deeper one."""

import argparse
from collections.abc import Sequence

import deepnmt
from deepnmt.cli.rewriting import by_stack, depth_parser, show
from deepnmt.console import program
from deepnmt.errors import UserError
from deepnmt.model.stack import STACKS

EPILOG = """The layers keep their order, their weights, and their groups where some of a group are left. In a history, a
kept layer keeps its row, but the lowest layer gets the first row, which has the embeddings alone. The weight of a
removed output goes to the nearest kept output below.

Epoch, data position and number of updates are kept. To resume training, give fairseq-train the new depth and groups,
and the new checkpoint as --restore-file, or as checkpoint_last.pt of its --save-dir.

example: deepnmt shrink checkpoints/12/checkpoint_best.pt 6.pt --encoder-every 2"""


def main(words: Sequence[str] | None = None) -> None:
    """Shrink the checkpoint that the command line names, and print a summary."""
    arguments = parse(words)
    deepnmt.register()
    from deepnmt.checkpoints.shrink import Shrinking, shrink_checkpoint

    keep = {stack: _layers(stack, text) for stack, text in by_stack(arguments, "keep").items()}
    shrinking = Shrinking(keep, by_stack(arguments, "every"))
    lines = shrink_checkpoint(arguments.checkpoint, arguments.out, shrinking, arguments.keep_schedule)
    show(lines, arguments.out)


def _layers(stack: str, text: str) -> tuple[int, ...]:
    from deepnmt.checkpoints.plans import parse_layers

    try:
        return parse_layers(text)
    except ValueError as error:
        raise UserError(f"--{stack}-keep {error}") from error


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    parser = depth_parser(program("shrink"), "Write a shallower checkpoint made from a deeper one.", EPILOG)
    for stack in STACKS:
        which = parser.add_mutually_exclusive_group()
        which.add_argument(f"--{stack}-keep", metavar="LAYERS",
            help=f"{stack} layers to keep, counted from 1, as in 1,3,5")  # fmt: skip
        which.add_argument(f"--{stack}-every", type=int, metavar="N",
            help=f"distance between the kept {stack} layers: 1, N + 1, ...")  # fmt: skip
    return parser.parse_args(words)
