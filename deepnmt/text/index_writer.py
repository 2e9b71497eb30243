"""Write fairseq's binarised sentences, byte for byte as `fairseq-preprocess` writes them (format: `index_file.py`).

Importing fairseq takes seconds, and it can binarise neither one language alone nor join what is binarised already.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS, STRUCTURAL
from deepnmt.text.index_file import BLOCK, HEADER, MAGIC, TYPES, read_lengths
from deepnmt.text.lines import read_lines

if TYPE_CHECKING:
    import numpy as np

UNKNOWN = SPECIAL_SYMBOLS.index("<unk>")
# Dictionaries from this size on need 32 bits; fairseq keeps some numbers of 16 bits free.
LARGE = 65_500
CODES = {name: code for code, name in TYPES.items()}


@dataclass
class Binarised:
    """What one side holds: sentences, tokens with their end symbols, and how many of these are unknown."""

    sentences: int = 0
    tokens: int = 0
    unknown: int = 0


def binarise(text: Path, prefix: str, types: Sequence[str]) -> Binarised:
    """Write PREFIX.bin and PREFIX.idx of a text in subwords.

    Args:
        text: a sentence a line
        prefix: of the files to write
        types: of the dictionary, by number

    Raises:
        UserError: a line is not UTF-8, or has a symbol of fairseq's; or the disk is full
    """
    numbers: Mapping[str, int] = {word: number for number, word in enumerate(types)}
    counts = Binarised()

    def sentences() -> Iterator[list[int]]:
        for number, line in enumerate(read_lines(text), start=1):
            if "<" in line and (symbol := next(iter(STRUCTURAL.intersection(line.split())), "")):
                raise UserError(f"{text}:{number}: must be text in subwords, but has fairseq's symbol {symbol}")
            sentence = [numbers.get(word, UNKNOWN) for word in line.split()]
            counts.sentences += 1
            counts.tokens += len(sentence) + 1
            counts.unknown += sentence.count(UNKNOWN)
            yield [*sentence, END]

    import numpy as np

    kind = kind_for(len(types))
    _write(prefix, kind, ((np.array(sentence, kind), (len(sentence),)) for sentence in sentences()))
    return counts


def join(parts: Sequence[str], prefix: str, types: int) -> int:
    """Write PREFIX.bin and PREFIX.idx of the sentences of several sides, one after the other.

    Args:
        parts: prefixes of the sides; one that stands there several times is repeated
        prefix: of the files to write
        types: of the dictionary, which all numbers must be below

    Returns:
        the number of sentences

    Raises:
        UserError: a side is missing or in an older format of fairseq's, or the disk is full
    """
    import numpy as np

    kind = kind_for(types)

    def blocks() -> Iterator[tuple[np.ndarray[Any, Any], Iterable[int]]]:
        for part in parts:
            lengths = read_lengths(part)
            if lengths is None:
                raise UserError(f"{part}.idx: must be an index of fairseq-preprocess, but has other content")
            with open(f"{part}.idx", "rb") as file:
                code = HEADER.unpack(file.read(HEADER.size))[2]
            numbers = np.memmap(f"{part}.bin", TYPES[code], "r", shape=(int(lengths.sum(dtype=np.int64)),))
            for start in range(0, len(numbers), BLOCK):
                yield numbers[start : start + BLOCK].astype(kind), ()
            yield np.array([], kind), lengths.tolist()

    return _write(prefix, kind, blocks())


def kind_for(types: int) -> str:
    """Return numpy's name of the numbers that fairseq takes for a dictionary."""
    return "uint16" if types < LARGE else "uint32"


def _write(prefix: str, kind: str, blocks: Iterable[tuple[np.ndarray[Any, Any], Iterable[int]]]) -> int:
    """Write blocks of numbers, each with the lengths of sentences that it adds, and return the number of sentences."""
    import numpy as np

    lengths = array("i")
    with whole_file(Path(f"{prefix}.bin")) as temporary, temporary.open("wb") as data:
        for numbers, ends in blocks:
            data.write(numbers.tobytes())
            lengths.extend(ends)
    sizes = np.array(lengths, np.int32)
    offsets = (np.cumsum(sizes, dtype=np.int64) - sizes) * np.dtype(kind).itemsize
    with whole_file(Path(f"{prefix}.idx")) as temporary, temporary.open("wb") as index:
        index.write(HEADER.pack(MAGIC, 1, CODES[kind], len(sizes)))
        index.write(sizes.tobytes())
        index.write(offsets.astype(np.int64).tobytes())
    return len(sizes)
