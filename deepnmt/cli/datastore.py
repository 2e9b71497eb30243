"""`deepnmt datastore`: store the states of a model's decoder on known text."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, program
from deepnmt.reference import add_reference_option

EPILOG = """OUT gets an entry per target token of the subset: the token, and the input of the decoder's output layer
before it, in half precision. It fits this model alone. With --datastore OUT, a search mixes the tokens that followed
the nearest entries into its predictions (docs/search.md). An existing OUT is replaced when the new one is complete.

example:

    deepnmt datastore checkpoints/de-en/average.pt data/de-en checkpoints/de-en/datastore
    deepnmt generate checkpoints/de-en/average.pt data/de-en results/de-en --datastore checkpoints/de-en/datastore"""


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line."""
    about = "Store the states of a model's decoder on the text that it was trained on."
    parser = Parser(program("datastore"), about, EPILOG)
    parser.add_argument("checkpoint", type=Path, help="model")
    parser.add_argument("data", type=Path, help="data folder of its training, or another with its dictionaries")
    parser.add_argument("out", type=Path, help="folder for the datastore")
    parser.add_argument("--subset", default="train", help="subset of the data (default: train)")
    parser.add_argument("--max-tokens", type=int, default=8192, help="maximum tokens per batch (default: 8192)")
    add_reference_option(parser)
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    """Store the states that a command line describes."""
    given = parse(words)
    from deepnmt.reranking.datastore import store  # takes longer than --help may

    store(given)
