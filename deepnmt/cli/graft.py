"""`deepnmt graft`: make the start of a training from parts of a pre-trained checkpoint."""

import argparse
import logging
from collections.abc import Sequence
from pathlib import Path

import deepnmt
from deepnmt.cli.rewriting import show
from deepnmt.console import Parser, program
from deepnmt.errors import UserError
from deepnmt.pretraining import PARTS

DESCRIPTION = """Write a checkpoint with some parts of a pre-trained model. The others are as a new model of the same
options has them. The parts, and the pieces that are new, are listed."""
EPILOG = """Parts are encoder and decoder, each with its embeddings, or the embeddings alone. The types of pre-training,
such as the mask, leave the embeddings: OUT fits the dictionaries of DATA. The checkpoint has no optimizer's state, and
its training begins at update 0.

example:
  deepnmt graft mass/checkpoint_best.pt encoder decoder start.pt
  deepnmt train tiny data/de-en checkpoints/de-en --finetune-from-model start.pt"""


def main(words: Sequence[str] | None = None) -> None:
    """Graft the parts that the command line names, and print where each piece is from."""
    arguments = parse(words)
    deepnmt.register()
    from deepnmt.checkpoints.grafting import graft_checkpoint

    # fairseq reports every step.
    logging.getLogger().setLevel(logging.WARNING)
    lines = graft_checkpoint(arguments.model, arguments.parts, arguments.out, arguments.seed)
    show(lines, arguments.out)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line. Raises `UserError` for a part that is unknown, or a seed out of range."""
    parser = Parser(program("graft"), DESCRIPTION, EPILOG)
    parser.add_argument("model", type=Path, metavar="MODEL", help="pre-trained checkpoint of a dlcl_transformer")
    parser.add_argument("parts", nargs="+", metavar="PART", help="encoder, decoder or embeddings")
    parser.add_argument("out", type=Path, metavar="OUT", help="new checkpoint, which must not exist")
    parser.add_argument("--seed", type=int, default=1, help="seed of the new parts (default: 1)")
    arguments = parser.parse_args(words)
    faults = [f"PART must be one of {', '.join(PARTS)}, but is {part}" for part in arguments.parts if part not in PARTS]
    if not 0 <= arguments.seed < 2**32:
        faults.append(f"--seed must be from 0 to {2**32 - 1}, but is {arguments.seed}")
    if faults:
        raise UserError(*faults)
    return arguments
