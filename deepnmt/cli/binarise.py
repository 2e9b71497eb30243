"""`deepnmt binarise`: more text for an existing data folder."""

from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, add_workers, listable, program, single_threaded
from deepnmt.errors import UserError
from deepnmt.text.in_order import cores

NAME = "binarise"
DESCRIPTION = """Prepare text as preprocess prepared DATA's text, and binarise it with DATA's codes and dictionaries;
nothing is learnt anew."""
EPILOG = """Empty pairs and lines are skipped and counted. So are longer ones, and pairs of a higher ratio, than DATA's
record allows. DIR appears only when everything is done. Run again with the same input and options, the command checks
the files and does nothing.

example:
  deepnmt binarise --like data/de-en --mono raw/news --lang en --symbols '<BT>' --dest data/news"""


def main(words: Sequence[str] | None = None) -> None:
    """Make the data folder that a command line describes."""
    given = parser().parse_args(words)
    for fault, is_so in {
        "--train or --mono must be given": not (given.train or given.mono),
        "--train cannot be combined with --mono": given.train and given.mono,
    }.items():
        if is_so:
            raise UserError(fault)
    single_threaded()
    # They import numpy.
    from deepnmt.jobs.data_job import DataJob
    from deepnmt.preparation.like_data import MoreText

    text = MoreText(given.like, given.train or given.mono, given.lang, given.symbols, given.drop_overlap)
    job = DataJob(program(NAME), given.dest, made_with=text.record(), option="--dest")
    job.make(lambda folder: {text.subset: text.make(folder, given.workers or cores())})


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("--like", type=Path, required=True, metavar="DATA", help="folder made by preprocess or binarise")
    add("--train", default="", metavar="PREFIX", help="parallel text, PREFIX.LANG with one sentence per line; DIR "
        "becomes a data folder of this training text and DATA's validation and test sets")  # fmt: skip
    add("--mono", default="", metavar="PREFIX", help="text of one language, PREFIX.LANG; DIR gets it as the subset "
        "'mono', and synthesise makes pairs from it")  # fmt: skip
    add("--lang", default="", metavar="LANG", help="language of --mono")
    add("--drop-overlap", action="store_true", help="leave out the lines of --mono that DATA validates or tests on")
    add("--symbols", action="append", default=[], metavar="SYMBOL", help="type to append to the dictionaries, such as "
        "'<BT>' for the tag of synthesise and '<BLANK>' for its noise; repeatable. Existing types keep their numbers; "
        "a symbol that exists already is left unchanged.")  # fmt: skip
    add("--dest", type=listable("--dest"), required=True, metavar="DIR", help="folder to make; it must not exist, "
        "unless the same command made it")  # fmt: skip
    add_workers(parser)
    parser.needs("--mono", "--lang")
    parser.needs("--lang", "--mono")
    parser.needs("--drop-overlap", "--mono")
    return parser
