"""`deepnmt ngram`: estimate an n-gram language model, or score the lines of a text with one."""

from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, add_workers, program, single_threaded
from deepnmt.text.in_order import cores

NAME = "ngram"
DESCRIPTION = "Estimate an n-gram language model, or score the lines of a text with one."
EPILOG = """OUT appears only when everything is done. train replaces an existing OUT.arpa; score refuses an existing
OUT.tsv. Both can be stopped at any moment; run the same command again to continue. score resumes from the scores made
so far, in OUT.tsv.parts; train starts over, and takes about a minute for a million lines.

example:
  deepnmt ngram train data/de-en/text/train.tok.en english.arpa --order 4
  deepnmt ngram score english.arpa crawled/text.en crawled/fluency.tsv"""
RAW = "split words and signs first, and ignore case: TEXT is not tokenised"


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="train|score")
    summary = "estimate an interpolated modified Kneser-Ney model, and write it as an ARPA file, which other tools read"
    add = commands.add_parser("train", help=summary, description=summary).add_argument
    add("text", type=Path, metavar="TEXT", help="text of words with white space between them")
    add("output", type=Path, metavar="OUT.arpa", help="file to write")
    add("--order", type=int, default=3, metavar="N", help="length of the longest n-grams, from 1 to 6 "
        "(default: 3); if no line is long enough, the longest available")  # fmt: skip
    add("--learn-from", type=int, default=2_000_000, metavar="N", help="maximum number of lines to learn from, evenly "
        "spread (default: 2000000); memory grows with the words and n-grams among them")  # fmt: skip
    add("--raw", action="store_true", help=RAW)
    summary = "write the cross entropy of each line in nats a word, the end of the line included"
    scoring = commands.add_parser("score", help=summary, description=f"{summary}: a header, then a line each.")
    add = scoring.add_argument
    add("model", type=Path, metavar="MODEL.arpa", help="model, from any tool")
    add("text", type=Path, metavar="TEXT", help="text of words with white space between them")
    add("output", type=Path, metavar="OUT.tsv", help="file to write")
    add("--column", default="cross_entropy", metavar="NAME", help="header of OUT.tsv (default: cross_entropy)")
    add("--raw", action="store_true", help=RAW)
    add_workers(scoring)
    return parser


def main(words: Sequence[str] | None = None) -> None:
    """Estimate or score, as a command line says."""
    given = parser().parse_args(words)
    single_threaded()
    # It imports numpy.
    from deepnmt.corpus.ngram import work

    if given.command == "train":
        work.train(given.text, given.output, given.order, given.learn_from, given.raw)
    else:
        workers = given.workers or cores()
        work.score(program(NAME), given.model, given.text, given.output, given.raw, given.column, workers)
