"""`deepnmt split`: write both models of a checkpoint of both directions."""

from collections.abc import Sequence
from pathlib import Path

import deepnmt
from deepnmt.console import Parser, program

EPILOG = """FWD and BWD are checkpoints of dlcl_transformer, without an optimizer's state. They translate as any others,
and are averaged before they are split.

example:
  deepnmt average checkpoints/dual dual.pt --last 5
  deepnmt split dual.pt de-en.pt en-de.pt"""


def main(words: Sequence[str] | None = None) -> None:
    """Split the checkpoint that a command line names."""
    description = "Write both models of a training with --arch dlcl_dual as checkpoints of one direction each."
    parser = Parser(program("split"), description, EPILOG)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="checkpoint of a dlcl_dual, or an average")
    parser.add_argument("fwd", type=Path, metavar="FWD", help="new checkpoint, from source to target")
    parser.add_argument("bwd", type=Path, metavar="BWD", help="new checkpoint, from target to source")
    given = parser.parse_args(words)
    deepnmt.register()
    from deepnmt.checkpoints.dual_files import split_checkpoint

    split_checkpoint(given.checkpoint, given.fwd, given.bwd)
    print(f"{given.fwd} and {given.bwd} are ready")
