"""`deepnmt embeddings`: learn vectors of types from text, as the start of a model's embeddings."""

from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import Parser, check_output, program, single_threaded, write_whole
from deepnmt.errors import UserError

NAME = "embeddings"
DESCRIPTION = """Write a file of vectors for the types of a dictionary. They are learnt from the neighbours of each type
in text of one language, by positive pointwise mutual information and a truncated SVD."""
EPILOG = """DATA may be several folders, joined by colons; the first one has the dictionary. Types without neighbours in
the text get no vector, and a training draws theirs.

example:
  deepnmt embeddings data/de-en:data/mono-de de.vec --lang de --width 128
  deepnmt train tiny data/de-en checkpoints/de-en --encoder-embed-path de.vec"""

# A window takes memory in proportion.
MOST = {"width": 100_000, "window": 1000}


def main(words: Sequence[str] | None = None) -> None:
    """Learn the vectors that a command line describes, and write them. Raises `UserError` for faulty input."""
    given = parser().parse_args(words)
    faults = [
        f"--{name} must be from 1 to {most}, but is {getattr(given, name)}"
        for name, most in MOST.items()
        if not 1 <= getattr(given, name) <= most
    ]
    if faults:
        raise UserError(*faults)
    check_output(given.out)
    single_threaded()
    # They import scipy.
    from deepnmt.corpus.word_vectors import learnt

    folders = list(map(Path, given.data.split(":")))
    found = learnt(folders, given.subset.split(","), given.lang, given.width, given.window)
    lines = [f"{name} {' '.join(f'{number:.6g}' for number in numbers)}\n" for name, numbers in found.items()]
    write_whole(given.out, f"{len(found)} {given.width}\n{''.join(lines)}")
    print(f"{given.out} is ready: vectors of {len(found)} types")


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(program(NAME), DESCRIPTION, EPILOG)
    add = parser.add_argument
    add("data", metavar="DATA", help="data folder made by preprocess or binarise, with its text")
    add("out", type=Path, metavar="OUT", help="file for --encoder-embed-path or --decoder-embed-path")
    add("--lang", required=True, metavar="LANG", help="language of the text and of the dictionary")
    add("--width", type=int, required=True, metavar="D", help="numbers of a vector, the model's --encoder-embed-dim")
    add("--window", type=int, default=5, metavar="W", help="largest distance of neighbours in tokens (default: 5)")
    add("--subset", default="train,mono", metavar="NAMES", help="subsets with the text (default: train,mono)")
    return parser
