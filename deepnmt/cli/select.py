"""`deepnmt select`: choose the training pairs that are most like a text."""

from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, listable, place, program, single_threaded

NAME = "select"
DESCRIPTION = """Make a data folder OUT from the N training pairs of DATA with the sources most like TEXT, in their
order; everything else is DATA's. finetune trains a model further on it."""
EPILOG = """methods:
  tfidf           the highest cosine with a line of TEXT, with words weighted by tf-idf.
  cross-entropy   the cross entropy under a language model of DATA's source, less the one under a model of TEXT. TEXT
                  must have at least 100 lines (Moore and Lewis 2010).

OUT/selection.tsv has the score of each pair of DATA; higher is more similar. selected_on records the file and the
checksum of TEXT, in OUT/preprocess.json, in checkpoints trained on OUT, and in their translations' generate.json. A
test set whose source was used is not quite unseen. OUT appears only when everything is done.

example:
  deepnmt select data/de-en data/de-en-news --like raw/news.de --number 50000"""


def main(words: Sequence[str] | None = None) -> None:
    """Select the pairs that a command line describes."""
    given = parser().parse_intermixed_args(words)
    single_threaded()
    # They import numpy.
    from deepnmt.corpus.selection.selecting import Selection
    from deepnmt.jobs.data_job import DataJob
    from deepnmt.text.like_folder import TRAIN

    selection = Selection(given.data, given.like, given.method, given.number)
    job = DataJob(program(NAME), given.out, made_with=selection.record())
    job.make(lambda folder: {TRAIN: selection.make(folder)})


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("data", type=place, metavar="DATA", help="data folder made by preprocess or binarise")
    add("out", type=listable("OUT"), metavar="OUT", help="folder to make")
    add("--like", type=Path, required=True, metavar="TEXT", help="raw text of DATA's source language, such as the text "
        "to be translated; it is tokenised as DATA was")  # fmt: skip
    add("--number", type=int, required=True, metavar="N", help="number of pairs to choose")
    add("--method", choices=("tfidf", "cross-entropy"), default="tfidf", help="method (default: tfidf)")
    return parser
