"""`deepnmt mix`: join real and synthetic pairs in one data folder."""

from collections.abc import Sequence

from deepnmt.console import Parser, listable, place, program, single_threaded, whole

NAME = "mix"
DESCRIPTION = """Make a data folder that has the training text of REAL N times, and each SYNTHETIC's once. Its
validation and test sets are REAL's; its dictionaries are the largest of all, and so include a tag."""
EPILOG = """OUT appears only when everything is done. Run again with the same input and options, the command checks the
files and does nothing.

example:
  deepnmt mix data/de-en-mixed data/de-en data/news-back --upsample 4"""


def main(words: Sequence[str] | None = None) -> None:
    """Mix the folders that a command line names."""
    given = parser().parse_intermixed_args(words)
    single_threaded()
    # They import numpy.
    from deepnmt.jobs.data_job import DataJob
    from deepnmt.preparation.mixing import Mixture
    from deepnmt.text.like_folder import TRAIN

    mixture = Mixture([given.real, *given.synthetic], given.upsample)
    job = DataJob(program(NAME), given.out, made_with=mixture.record())
    job.make(lambda folder: {TRAIN: mixture.make(folder)})


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("out", type=listable("OUT"), metavar="OUT", help="folder to make")
    add("real", type=place, metavar="REAL", help="data folder made by preprocess or binarise")
    add("synthetic", type=place, nargs="+", metavar="SYNTHETIC", help="data folder made by synthesise, or any other "
        "with the same codes and dictionaries (with or without appended --symbols)")  # fmt: skip
    add("--upsample", type=whole("--upsample", 1, 1000), default=1, metavar="N", help="number of copies of the real "
        "pairs (default: 1)")  # fmt: skip
    return parser
