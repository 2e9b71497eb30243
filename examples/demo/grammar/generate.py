"""Command line of the grammar: write a parallel German/English corpus."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn, Optional

if not __package__:
    # As a script its own folder is on the path, but the package is in the folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from grammar.corpus import ExhaustedError, Pair, sample_pairs, write_splits

__all__ = ["ExhaustedError", "Pair", "main", "sample_pairs", "write_splits"]

_DESCRIPTION = """\
Write OUT_DIR/{train,valid,test}.{de,en}: German/English sentence pairs from a bilingual grammar,
one sentence per line, raw text in UTF-8, line by line translations of each other. No sentence of
either language occurs twice, within a split or across splits. The same arguments give the same
files on every machine. Files are written beside and then renamed, so an interrupted run leaves no
half-written corpus."""

# A million takes minutes and a gigabyte; more is a slip of the finger.
_MOST_PAIRS = 1_000_000

_EXIT_STATUS = "Exit status: 0 if the corpus was written, 2 if an argument was wrong."


class _Parser(argparse.ArgumentParser):
    """An argument parser that complains in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _parser() -> _Parser:
    parser = _Parser(
        prog="generate.py",
        description=_DESCRIPTION,
        epilog=_EXIT_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("out_dir", metavar="OUT_DIR", type=Path, help="made if it does not exist")
    for split, size in (("train", 24000), ("valid", 500), ("test", 500)):
        parser.add_argument(
            f"--{split}",
            metavar="N",
            type=int,
            default=size,
            help=f"number of pairs in {split}, at least 1 (default: %(default)s)",
        )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=int,
        default=1,
        help="where the random choices start, at least 0 (default: %(default)s)",
    )
    return parser


def _complain(parser: _Parser, arguments: argparse.Namespace) -> None:
    """Report every bad value in one line."""
    faults = [
        f"--{split} must be at least 1, but is {getattr(arguments, split)}"
        for split in ("train", "valid", "test")
        if getattr(arguments, split) < 1
    ]
    wanted = arguments.train + arguments.valid + arguments.test
    if wanted > _MOST_PAIRS:
        faults.append(f"--train + --valid + --test must be at most {_MOST_PAIRS}, but is {wanted}")
    if arguments.seed < 0:
        faults.append(f"--seed must be at least 0, but is {arguments.seed}")
    if arguments.out_dir.exists() and not arguments.out_dir.is_dir():
        faults.append(f"OUT_DIR must be a directory, but {arguments.out_dir} is a file")
    if faults:
        parser.error("; ".join(faults))


def main(argv: Optional[list[str]] = None) -> int:
    """Run the command line; returns the exit status, or raises SystemExit on a bad argument."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    _complain(parser, arguments)
    sizes = {split: getattr(arguments, split) for split in ("train", "valid", "test")}
    try:
        write_splits(arguments.out_dir, sizes, arguments.seed)
    except ExhaustedError as error:
        parser.error(
            f"--train + --valid + --test must be at most {error.found}, "
            f"the number of distinct pairs found, but is {sum(sizes.values())}"
        )
    except OSError as error:
        parser.error(f"OUT_DIR must be writable, but: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
