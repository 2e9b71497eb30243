"""Training pairs with inline targets, for preprocess.sh: the part `train1` of the training set, for both directions.

commands:
  inline_terms.py make FOLDER TOKENS ALIGNMENT SHARE COUNTS    write the pairs in subwords: FOLDER/text/train1.*
  inline_terms.py binarise FOLDER                              binarise them with FOLDER's dictionaries

fairseq joins train1 to train, and takes train1.de-en before train1.en-de where it translates from de to en.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path

import workers

from deepnmt import console
from deepnmt.corpus.alignment.grow_diag import Link
from deepnmt.corpus.alignment.pharaoh import parse_line
from deepnmt.corpus.alignment.term_examples import TermExamples
from deepnmt.errors import UserError
from deepnmt.text.dictionary import read_types
from deepnmt.text.index_writer import binarise
from deepnmt.text.inline_targets import PART, cut_inline
from deepnmt.text.lines import read_lines
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import Subwords


def make(folder: Path, tokens: str, alignment: Path, share: float, counts: Path, processes: int) -> None:
    """Write the pairs in subwords, for both directions, and how many they are.

    Args:
        folder: of the data that are being made, with record and codes
        tokens: what the names of the tokenised training text begin with
        alignment: of these texts
        share: of the training pairs that get another one with inline targets
        counts: folder for what was counted
        processes: that cut words

    Raises:
        UserError: no pair has a term
    """
    settings = TextSettings.read(folder)
    for each in (settings, settings.reversed()):
        source, target = each.languages
        name = f"{PART}.{source}-{target}"
        texts = [Path(f"{tokens}.{language}") for language in each.languages]
        examples = TermExamples(share)
        pairs = examples(_aligned(texts, alignment, each is not settings))
        with ExitStack() as stack:
            paths = [
                stack.enter_context(console.whole_file(folder / "text" / f"{name}.bpe.{language}"))
                for language in each.languages
            ]
            files = [stack.enter_context(path.open("w", encoding="utf-8", newline="\n")) for path in paths]
            for sides in workers.map_in_order(partial(_cutter, folder, each), pairs, processes):
                for file, side in zip(files, sides):
                    file.write(side + "\n")
        if not examples.made.kept:
            raise UserError(f"--glossary-training: no pair has a term of {source}; is there more text?")
        (counts / f"{name}.json").write_text(json.dumps(asdict(examples.made)), encoding="utf-8")


def _aligned(texts: Sequence[Path], alignment: Path, turned: bool) -> Iterator[tuple[str, str, list[Link]]]:
    """Yield pairs of lines and their links; `turned` where the alignment is of the other direction."""
    for number, (source, target, line) in enumerate(zip(*map(read_lines, (*texts, alignment))), start=1):
        words, others = source.split(), target.split()
        sizes = len(words), len(others)
        links = parse_line(line, *(sizes[::-1] if turned else sizes), f"{alignment}:{number}")
        yield source, target, [(j, i) for i, j in links] if turned else links


def _cutter(folder: Path, settings: TextSettings) -> Callable[[tuple[str, str]], tuple[str, str]]:
    """Return what cuts a pair into subwords."""
    source, target = (Subwords(folder, settings, language) for language in settings.languages)
    return lambda pair: (cut_inline(pair[0], source, target), target(pair[1]))


def binarise_both(folder: Path) -> None:
    """Binarise the pairs of both directions."""
    settings = TextSettings.read(folder)
    for each in (settings, settings.reversed()):
        name = f"{PART}.{'-'.join(each.languages)}"
        for language in each.languages:
            types = read_types(folder / f"dict.{language}.txt")
            binarise(folder / "text" / f"{name}.bpe.{language}", str(folder / f"{name}.{language}"), types)


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("make")
    command.add_argument("folder", type=Path)
    command.add_argument("tokens")
    command.add_argument("alignment", type=Path)
    command.add_argument("share", type=float)
    command.add_argument("counts", type=Path)
    command.add_argument("--workers", type=int, default=1, metavar="N", help="processes (default: 1)")
    command = commands.add_parser("binarise")
    command.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.command == "make":
        make(given.folder, given.tokens, given.alignment, given.share, given.counts, given.workers)
    else:
        binarise_both(given.folder)


if __name__ == "__main__":
    console.run(main)
