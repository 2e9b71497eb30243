"""fairseq's dictionaries of texts in subwords, which may have more types than these texts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from deepnmt.console import whole_file
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.lines import read_lines
from deepnmt.text.subwords import SEPARATOR, join_bpe


def write_dictionary(path: Path, texts: Sequence[Path], more: Iterable[str] = ()) -> None:
    """Write the types of texts in subwords, and some more, as fairseq-preprocess does.

    The order is that of the counts, then of the names; the number of types is filled up to a multiple of eight.
    """
    counts: Counter[str] = Counter(dict.fromkeys(more, 0))
    for line in _lines(texts):
        counts.update(line.split())
    for symbol in SPECIAL_SYMBOLS:
        counts.pop(symbol, None)
    entries = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    fillers = (name for number in count() if (name := f"madeupword{number:04d}") not in counts)
    entries += [(next(fillers), 0) for _ in range(-(len(entries) + len(SPECIAL_SYMBOLS)) % 8)]
    with whole_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word} {number}\n" for word, number in entries)


def dropout_types(codes: Path, texts: Sequence[Path]) -> set[str]:
    """Return every symbol that BPE-dropout can leave of the words of texts in subwords.

    These are the characters of the words and what each merge makes.
    """
    types: set[str] = set()
    for word in {word for line in _lines(texts) for word in join_bpe(line).split()}:
        types.update(f"{sign}{SEPARATOR}" for sign in word[:-1])
        types.add(word[-1])
    for line in list(read_lines(codes))[1:]:
        symbol = "".join(line.strip("\r\n ").split(" "))
        types.add(symbol.removesuffix("</w>") if symbol.endswith("</w>") else symbol + SEPARATOR)
    return types


def types_of(texts: Sequence[Path]) -> set[str]:
    """Return the types of texts in subwords."""
    return {piece for line in _lines(texts) for piece in line.split()}


def _lines(texts: Sequence[Path]) -> Iterator[str]:
    return chain.from_iterable(map(read_lines, texts))
