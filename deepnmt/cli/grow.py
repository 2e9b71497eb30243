"""`deepnmt grow`: make a deeper checkpoint from a shallower one."""

import argparse
from collections.abc import Sequence

import deepnmt
from deepnmt.checkpoints.plans import STRATEGIES
from deepnmt.cli.rewriting import by_stack, depth_parser, show
from deepnmt.console import program
from deepnmt.model.stack import STACKS

EPILOG = """strategies, for 3 layers:
  stack        repeat the whole stack                  1 2 3 1 2 3
  top          repeat the upper layers                 1 2 3 2 3
  repeat-top   repeat the top layer                    1 2 3 3 3
  interleave   copy each layer above itself            1 1 2 2 3 3

Epoch, data position, number of updates and scores are kept. To resume training, give fairseq-train the new depth and
groups, and the new checkpoint as --restore-file, or as checkpoint_last.pt of its --save-dir.

example: deepnmt grow checkpoints/6/checkpoint_last.pt checkpoints/12/checkpoint_last.pt --encoder-layers 12"""


def main(words: Sequence[str] | None = None) -> None:
    """Grow the checkpoint that the command line names, and print a summary."""
    arguments = parse(words)
    deepnmt.register()
    from deepnmt.checkpoints.grow import Growth, grow_checkpoint

    depths, groups = by_stack(arguments, "layers"), by_stack(arguments, "groups")
    growth = Growth(depths, groups, arguments.strategy, arguments.function_preserving)
    moments, schedule = arguments.carry_moments, arguments.keep_schedule
    show(grow_checkpoint(arguments.checkpoint, arguments.out, growth, moments, schedule), arguments.out)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    parser = depth_parser(program("grow"), "Write a deeper checkpoint made from a shallower one.", EPILOG)
    for stack in STACKS:
        parser.add_argument(f"--{stack}-layers", type=int, metavar="N", help=f"new depth of the {stack}")
    for stack in STACKS:
        parser.add_argument(f"--{stack}-groups", metavar="GROUPS", help="new groups, as in training; the present ones "
            "must keep their ends. By default a size stays, and boundaries get one more group at the top, or with "
            "interleave are scaled.")  # fmt: skip
    parser.add_argument("--strategy", choices=STRATEGIES, default="stack", help="strategy (default: stack)")
    parser.add_argument("--function-preserving", action="store_true", help="give the new model the outputs of the old "
        "one; training then starts to use the new layers")  # fmt: skip
    parser.add_argument("--carry-moments", action="store_true", help="keep Adam's moments of kept and copied layers, "
        "instead of dropping all moments")  # fmt: skip
    return parser.parse_args(words)
