"""`deepnmt datastore`: store the states of a model's decoder on known text."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from deepnmt.console import Parser, program
from deepnmt.reference import add_reference_option

NAME = "datastore"

EPILOG = """OUT gets an entry for each target token of the subset: what the decoder's output layer is given before the
token, in half precision, and the token. It is for this very model, and for no other; a search that is given
--datastore OUT mixes what followed the nearest entries into the model's predictions (docs/search.md). An OUT of this
command is replaced when the new one is complete.

example:
  deepnmt datastore checkpoints/de-en/average.pt data/de-en checkpoints/de-en/datastore
  deepnmt generate checkpoints/de-en/average.pt data/de-en results/de-en --datastore checkpoints/de-en/datastore"""


def parse(words: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """Return the command line."""
    parser = Parser(
        program(NAME), "Write down the states of a model's decoder on the text that it was trained on.", EPILOG
    )
    parser.add_argument("checkpoint", type=Path, help="the model")
    parser.add_argument("data", type=Path, help="data folder that it was trained on, or another with its dictionaries")
    parser.add_argument("out", type=Path, help="folder for the datastore")
    parser.add_argument("--subset", default="train", help="of the data (default: train)")
    parser.add_argument("--max-tokens", type=int, default=8192, help="tokens of a batch (default: 8192)")
    add_reference_option(parser)
    return parser.parse_args(words)


def main(words: Optional[Sequence[str]] = None) -> None:
    """Store what a command line says."""
    given = parse(words)
    # Here, since it takes longer than --help may.
    from deepnmt.reranking.datastore import store

    store(given)
