"""`deepnmt join`: make a checkpoint of both directions from one of each."""

from collections.abc import Sequence
from pathlib import Path

import deepnmt
from deepnmt.console import Parser, program

EPILOG = """Both models need the same sizes and rules, and dictionaries of the same data. A training with
--arch dlcl_dual starts from OUT by --finetune-from-model, or from FWD and BWD by --fwd-from and --bwd-from.

example:
  deepnmt join de-en.pt en-de.pt dual.pt
  deepnmt train my-dual.yaml data/de-en checkpoints/dual --finetune-from-model dual.pt"""


def main(words: Sequence[str] | None = None) -> None:
    """Join the checkpoints that a command line names."""
    description = "Write a checkpoint for --arch dlcl_dual from two checkpoints of dlcl_transformer."
    parser = Parser(program("join"), description, EPILOG)
    parser.add_argument("fwd", type=Path, metavar="FWD", help="checkpoint from source to target")
    parser.add_argument("bwd", type=Path, metavar="BWD", help="checkpoint from target to source")
    parser.add_argument("out", type=Path, metavar="OUT", help="new checkpoint, which must not exist")
    given = parser.parse_args(words)
    deepnmt.register()
    from deepnmt.checkpoints.dual_files import join_checkpoints

    join_checkpoints(given.fwd, given.bwd, given.out)
    print(f"{given.out} is ready")
