"""Learn a BPE and segment text by it.

commands:
  segment.py learn CODES MERGES TEXT...            learn merge operations from all the texts together
  segment.py apply CODES --text IN OUT ...         write each text in subwords
  segment.py apply FOLDER --lang LANG --text ...   as FOLDER's preprocess.json says for a language
  segment.py vocabulary FILE N TEXT                write the types that a text in subwords has at least N times
  segment.py dictionary CODES DICT TEXT...         write fairseq's dictionary of texts in subwords, for BPE-dropout

subword-nmt does both. It is called as a library: its commands leave files unclosed, so that a full disk cuts them off
with status 0, and read a text with one process whatever --num-workers says.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain, count
from pathlib import Path

import workers

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.inline_targets import MARKS
from deepnmt.text.lines import count_lines, read_lines
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import (
    SEPARATOR,
    Bpe,
    Subwords,
    byte_symbols,
    check_codes,
    join_bpe,
    read_vocabulary,
    write_vocabulary,
)


def learn(codes: Path, merges: int, texts: list[Path]) -> int:
    """Write the codes, and return how many merges the texts had for them.

    Raises:
        UserError: there is nothing to merge, or the disk is full
    """
    from subword_nmt.learn_bpe import learn_bpe

    names = " and ".join(map(str, texts))
    nothing = UserError(
        f"{names}: must have two symbols side by side that occur twice for the BPE to merge, but have none; "
        "is there more text?"
    )
    with console.whole_file(codes) as temporary:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            try:
                learn_bpe(chain.from_iterable(map(read_lines, texts)), file, merges)
            except ValueError:
                # Of `max` over no pairs at all: every word has one character.
                raise nothing from None
        with temporary.open("rb") as file:
            made = sum(1 for _ in file) - 1
        if not made:
            raise nothing
    if made < merges:
        print(f"warning: --bpe-merges is {merges}, but the text has only {made} merges to make", file=sys.stderr)
    return made


class Segmenter:
    """Turns a numbered line of tokens into subwords; with dropout, by random numbers that the line's number seeds."""

    def __init__(self, codes: Path, dropout: float = 0, seed: int = 1, lang: str = "", limited: bool = True) -> None:
        self.dropout, self.seed = dropout, seed
        self.bpe = Subwords(codes, TextSettings.read(codes), lang, limited) if lang else Bpe(codes)

    def __call__(self, numbered: tuple[int, str]) -> str:
        """Segment one line."""
        number, line = numbered
        if self.dropout:
            # The same whatever the number of processes.
            random.seed(f"{self.seed} {number}")
        return self.bpe(line.rstrip("\n"), self.dropout)


def apply(source: Path, target: Path, make: Callable[[], Segmenter], processes: int) -> None:
    """Write a text in subwords. Raises `UserError` if a line is not UTF-8 or the disk is full."""
    total = count_lines(source)
    with (
        console.whole_file(target) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as file,
        console.progress(total, f"segmenting {source.name}", " lines") as bar,
    ):
        numbered = enumerate(read_lines(source))
        for line in workers.map_in_order(make, numbered, min(processes, 1 + total // workers.CHUNK)):
            file.write(line + "\n")
            bar.update()


def write_dropout_dictionary(codes: Path, dictionary: Path, texts: list[Path]) -> None:
    """Write the types of texts in subwords, and every symbol that dropout can leave of their words.

    These are the characters of the words and what each merge makes.
    """
    more: Counter[str] = Counter()
    for word in {word for line in chain.from_iterable(map(read_lines, texts)) for word in join_bpe(line).split()}:
        more.update(dict.fromkeys([*(f"{sign}{SEPARATOR}" for sign in word[:-1]), word[-1]], 0))
    for line in list(read_lines(codes))[1:]:
        symbol = "".join(line.strip("\r\n ").split(" "))
        more[symbol.removesuffix("</w>") if symbol.endswith("</w>") else symbol + SEPARATOR] += 0
    write_dictionary(dictionary, texts, more)


def write_dictionary(dictionary: Path, texts: list[Path], more: Iterable[str]) -> None:
    """Write the types of texts in subwords, and some more, in fairseq's order.

    That is by count, then by name, filled up to a multiple of eight.
    """
    counts: Counter[str] = Counter(dict.fromkeys(more, 0))
    for line in chain.from_iterable(map(read_lines, texts)):
        counts.update(line.split())
    for symbol in SPECIAL_SYMBOLS:
        counts.pop(symbol, None)
    entries = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    fillers = (name for number in count() if (name := f"madeupword{number:04d}") not in counts)
    entries += [(next(fillers), 0) for _ in range(-(len(entries) + len(SPECIAL_SYMBOLS)) % 8)]
    with console.whole_file(dictionary) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word} {number}\n" for word, number in entries)


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("learn")
    command.add_argument("codes", type=Path)
    command.add_argument("merges", type=int)
    command.add_argument("texts", type=Path, nargs="+", metavar="TEXT")
    command = commands.add_parser("apply")
    command.add_argument("codes", type=Path)
    command.add_argument("--text", type=Path, nargs=2, action="append", required=True, metavar=("IN", "OUT"))
    command.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes")
    command.add_argument("--dropout", type=float, default=0, metavar="P", help="leave out a merge with probability P")
    command.add_argument("--seed", type=int, default=1, metavar="S", help="of --dropout")
    command.add_argument("--lang", default="", metavar="LANG", help="CODES is a folder; the text is of this language")
    command.add_argument("--unlimited", action="store_true", help="with --lang: leave types that are too rare")
    command = commands.add_parser("vocabulary")
    command.add_argument("file", type=Path)
    command.add_argument("least", type=int, metavar="N")
    command.add_argument("text", type=Path)
    command.add_argument("--characters", action="store_true", help="and characters, within words and at their ends")
    command = commands.add_parser("dictionary")
    command.add_argument("codes", type=Path)
    command.add_argument("dictionary", type=Path, metavar="DICT")
    command.add_argument("texts", type=Path, nargs="+", metavar="TEXT")
    command.add_argument("--types", type=Path, nargs="+", metavar="FILE", help="add these, not what dropout can leave")
    command.add_argument("--bytes", action="store_true", help="with --types: add all bytes, too")
    command.add_argument("--marks", action="store_true", help="add those of inline targets, not what dropout can leave")
    arguments = parser.parse_args()
    if arguments.command == "learn":
        learn(arguments.codes, arguments.merges, arguments.texts)
        return
    if arguments.command == "vocabulary":
        write_vocabulary(arguments.file, arguments.text, arguments.least, arguments.characters)
        return
    if arguments.command == "dictionary":
        if arguments.types or arguments.marks:
            types = [*chain.from_iterable(map(read_vocabulary, arguments.types or ()))]
            types += byte_symbols() if arguments.bytes else []
            types += MARKS if arguments.marks else []
            write_dictionary(arguments.dictionary, arguments.texts, types)
        else:
            write_dropout_dictionary(arguments.codes, arguments.dictionary, arguments.texts)
        return
    if not arguments.lang:
        check_codes(arguments.codes)
    make = partial(
        Segmenter, arguments.codes, arguments.dropout, arguments.seed, arguments.lang, not arguments.unlimited
    )
    for source, target in arguments.text:
        apply(source, target, make, arguments.workers)


if __name__ == "__main__":
    console.run(main)
