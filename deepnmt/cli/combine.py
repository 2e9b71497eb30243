"""`deepnmt combine`: combine n-best lists into new translations."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from deepnmt.cli.rerank import finite, whole
from deepnmt.console import Parser, program
from deepnmt.errors import UserError

EPILOG = """The translations of a sentence are aligned with the one most similar to all others. Each slot of this
confusion network gives at most one word: the result may be a sentence in no list. docs/search.md has the formulas.

OUT gets the files of deepnmt generate, combine.json and nbest.tsv. From the features network, model and length of that
list, deepnmt rerank --tune finds weights. Finished sentences are kept in OUT/scores: a stopped command resumes.

example:

    deepnmt combine --nbest valid.a valid.b --data DATA --models a.pt:b.pt --paths 10 valid.combined
    deepnmt rerank --nbest valid.combined --data DATA --tune valid.tuned
    deepnmt combine --nbest test.a test.b --data DATA --models a.pt:b.pt --weights valid.tuned/weights.json \\
        test.combined"""


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the command line. Raises `UserError` if it is faulty."""
    parser = Parser(program("combine"), "Combine the translations of n-best lists into new ones.", EPILOG)
    parser.add_argument("--nbest", nargs="+", type=Path, required=True, metavar="LIST", help="nbest.tsv, or its folder")
    parser.add_argument("--data", type=Path, required=True, help="data folder, made by deepnmt preprocess")
    parser.add_argument("--models", type=lambda text: tuple(Path(path) for path in text.split(":")), required=True,
        metavar="CHECKPOINT[:CHECKPOINT2...]", help="checkpoint, or ensemble, that rates the paths")  # fmt: skip
    parser.add_argument("--network-weight", type=finite, metavar="W", help="weight of sum log p_s (default: 1)")
    parser.add_argument("--model-weight", type=finite, metavar="W", help="weight of log P(y | x) (default: 1)")
    parser.add_argument("--length-weight", type=finite, metavar="W", help="weight of the length (default: 0)")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="file with all three weights, from deepnmt rerank "
        "--tune on this command's nbest.tsv")  # fmt: skip
    parser.add_argument("--beam", type=whole, default=10, help="prefixes to keep after each slot (default: 10)")
    parser.add_argument("--paths", type=whole, default=1, help="number of best paths in nbest.tsv (default: 1)")
    parser.add_argument("--max-tokens", type=whole, default=2048, help="maximum tokens per batch (default: 2048)")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder to write")
    arguments = parser.parse_args(words)
    defaults = {"network_weight": 1.0, "model_weight": 1.0, "length_weight": 0.0}
    given = [f"--{name.replace('_', '-')}" for name in defaults if getattr(arguments, name) is not None]
    if given and arguments.weights:
        raise UserError(f"{', '.join(given)} cannot be combined with --weights, which has all of them")
    for name, value in defaults.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    if arguments.paths > arguments.beam:
        raise UserError(f"--paths must be at most --beam, {arguments.beam}, but is {arguments.paths}")
    return arguments


def main(words: Sequence[str] | None = None) -> None:
    """Combine the lists that a command line names."""
    given = parse(words)
    from deepnmt.reranking.combined_lists import combine_lists  # takes longer than --help may

    combine_lists(given)
