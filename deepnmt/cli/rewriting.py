"""Common parts of the command lines that make one checkpoint from another."""

import argparse
from pathlib import Path
from typing import Any

from deepnmt.console import Parser
from deepnmt.model.stack import STACKS


def depth_parser(command: str, description: str, epilog: str) -> Parser:
    """Return the parser of a command that changes the depth of a model, with the common arguments."""
    parser = Parser(command, description=description, epilog=epilog)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="dlcl_transformer of fairseq-train")
    parser.add_argument("out", type=Path, metavar="OUT", help="new checkpoint, which must not exist")
    parser.add_argument("--keep-schedule", action="store_true", help="do not reset the learning rate to its peak "
        "(lr-scheduler inverse_sqrt_reset)")  # fmt: skip
    return parser


def by_stack(arguments: argparse.Namespace, option: str) -> dict[str, Any]:
    """Return the given values of --encoder-OPTION and --decoder-OPTION."""
    values = {stack: getattr(arguments, f"{stack}_{option}") for stack in STACKS}
    return {stack: value for stack, value in values.items() if value is not None}


def show(lines: list[str], out: Path) -> None:
    """Print a summary, and that the checkpoint is ready."""
    print("\n".join([*lines, f"{out} is ready"]))
