"""`deepnmt search-errors`: how often the beam search misses the best string, by exhaustive search."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, as_number, program, whole, wholes
from deepnmt.errors import UserError
from deepnmt.limits import BEAM

DESCRIPTION = """Count the sentences with a string of higher log P than the beam search found, for several beams. These
are errors of the search, not of the model. A depth-first search over all strings starts with the best string of any
beam, and abandons every prefix of a lower log P. There is no length penalty: the sum of log P is compared, and the
empty string may win."""
EPILOG = """The command can be stopped at any moment; run it again to resume, as long as CHECKPOINT and DATA are the
same. N may then be another number: the report covers the first N alone, and no sentence is searched again. Options of a
length penalty are refused.

example:
  deepnmt search-errors checkpoints/de-en/average.pt data/de-en --limit 30 --sentences 200"""
PENALTIES = ("--lenpen", "--length-penalty", "--unnormalized")


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program("search-errors"), DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("checkpoints", metavar="CHECKPOINT", help="checkpoint, or ensemble with colons between checkpoints")
    add("data", type=Path, metavar="DATA", help="data folder")
    add("--limit", type=seconds, default=10.0, metavar="SECONDS", help="time for the search of one sentence (default: "
        "10)")  # fmt: skip
    add("--beams", type=beams, default=[1, 5, 50], metavar="B1,B2", help="beams to compare (default: 1,5,50)")
    add("--subset", default="test", metavar="SUBSET", help="subset: valid, test, ... (default: test)")
    add("--sentences", type=whole("--sentences", 1, 10**9), metavar="N", help="number of first sentences of "
        "the subset (default: all)")  # fmt: skip
    add("--max-len", type=whole("--max-len", 1, 1000), default=200, metavar="N", help="maximum tokens of a string "
        "(default: 200)")  # fmt: skip
    add("--out", type=Path, metavar="DIR", help="folder for search_errors.json and sentences.tsv, a line for each "
        "sentence (default: CHECKPOINT.search_errors)")  # fmt: skip
    return parser


def seconds(text: str) -> float:
    """Return a number of seconds. Raises `UserError` for any other text."""
    value = as_number(text)
    if not value > 0:
        raise UserError(f"--limit must be a number of seconds above 0, but is '{text}'")
    return value


def beams(text: str) -> list[int]:
    """Return the beams of a list, in order. Raises `UserError` for any other text."""
    return sorted({*wholes("--beams", 1, BEAM)(text)})


def main(words: Sequence[str] | None = None) -> None:
    """Search as a command line says, and print the figures."""
    words = sys.argv[1:] if words is None else words
    if penalties := [name for word in words if (name := word.partition("=")[0]) in PENALTIES]:
        raise UserError(f"{penalties[0]} cannot be used here: sums of log P are compared, without a length penalty")
    given = parser().parse_args(words)
    out = given.out or Path(f"{given.checkpoints.split(os.pathsep)[0]}.search_errors")
    from deepnmt.generation.missed_strings import REPORT, search_errors, shown  # fairseq takes seconds

    places = given.checkpoints, given.data, out, given.subset
    print(shown(search_errors(*places, given.limit, given.beams, given.max_len, given.sentences)))
    print(f"{out / REPORT} is ready")
