"""Learn subwords of a kind for preprocess.sh: codes of so many types, the characters among them.

usage: learn_subwords.py KIND CODES SIZE TEXT... [--min-pair-count N]

A BPE of so many merges is learnt by segment.py.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import segment

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines
from deepnmt.text.subwords import CHARACTERS, MERGES
from deepnmt.text.unigram import learn_unigram
from deepnmt.text.word_pieces import learn_word_pieces, symbols_of

KINDS = ("bpe", "unigram", "wordpiece", "char")


def learn(kind: str, codes: Path, size: int, texts: list[Path], least: int) -> None:
    """Write codes.

    Args:
        kind: one of `KINDS`
        codes: to write
        size: types, in characters too; of no use to characters
        texts: in tokens
        least: times that two word pieces must be seen side by side to be merged

    Raises:
        UserError: the size leaves no room beside the characters, sentencepiece is missing, or the disk is full
    """
    if kind == "char":
        with console.whole_file(codes) as temporary:
            temporary.write_text(f"{CHARACTERS}\n", encoding="utf-8")
        return
    words = Counter(word for line in _lines(texts) for word in line.split())
    characters = len({symbol for cut in symbols_of(words) for symbol in cut})
    if size <= characters:
        raise UserError(
            f"--vocabulary must be at least {characters + 1}, one more than the text's characters within words and at "
            f"their ends, but is {size}"
        )
    if kind == "bpe":
        segment.learn(codes, size - characters, texts)
        return
    with console.whole_file(codes) as temporary:
        if kind == "unigram":
            model = learn_unigram(_lines(texts), size)
            model.write(temporary)
            made = len(model.log_probs)
        else:
            merges = learn_word_pieces(words, size - characters, least)
            if not merges:
                raise UserError(
                    f"--min-pair-count must be a number of times that two characters are side by side, but is {least}"
                )
            made = len(merges) + characters
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.write(f"{MERGES}\n")
                file.writelines(f"{first} {second}\n" for first, second in merges)
    if made < size:
        print(f"warning: --vocabulary is {size}, but the text has only {made} types to learn", file=sys.stderr)


def _lines(texts: list[Path]) -> Iterator[str]:
    return chain.from_iterable(map(read_lines, texts))


def main() -> None:
    """Do what the command line says."""
    parser = console.Parser(description=__doc__)
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("codes", type=Path, metavar="CODES")
    parser.add_argument("size", type=int, metavar="SIZE")
    parser.add_argument("texts", type=Path, nargs="+", metavar="TEXT")
    parser.add_argument("--min-pair-count", type=int, default=30, metavar="N", help="for word pieces (default: 30)")
    arguments = parser.parse_args()
    learn(arguments.kind, arguments.codes, arguments.size, arguments.texts, arguments.min_pair_count)


if __name__ == "__main__":
    console.run(main)
