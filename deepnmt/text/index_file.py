"""fairseq's binarised sentences: PREFIX.idx, where each begins, and PREFIX.bin, their token numbers.

    PREFIX.idx = "MMIDIDX\\0\\0", version (8 bytes), type of the numbers (1), sentences (8),
                 lengths (4 each), offsets in bytes (8 each), all little-endian

Both files are mapped and read completely, in blocks, which keeps memory small. 4.5 million sentences with 133 million
tokens take 0.4 s from the page cache; fairseq reads both files into it at its start anyway. The bytes are the same as
`fairseq-preprocess` writes. Importing fairseq takes seconds, and it can neither binarise one language alone nor join
binarised data.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from deepnmt.console import whole_file
from deepnmt.errors import UserError, in_place_of
from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS, STRUCTURAL
from deepnmt.text.in_order import lines_of, read_blocks

if TYPE_CHECKING:
    import numpy as np

MAGIC = b"MMIDIDX\x00\x00"
# fairseq's older formats; they are left to fairseq.
OTHER_MAGICS = (b"TNTIDX\x00\x00", b"HUFFIDX\x00")
HEADER = struct.Struct("<9sQBQ")
BYTES_A_SENTENCE = 4 + 8
TYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16", 9: "uint32", 10: "uint64"}
BLOCK, LINES = 1 << 24, 10_000


@dataclass(frozen=True)
class Dictionary:
    """A dictionary file and its number of types."""

    path: Path
    types: int


def check_side(prefix: str, dictionary: Dictionary) -> Optional[int]:
    """Return the number of sentences of one side of a subset; None for an older format of fairseq's.

    `prefix` lacks .idx and .bin. Raises `UserError` if a file is missing or truncated, has other content, or numbers
    that the dictionary lacks.
    """
    index, data = Path(f"{prefix}.idx"), Path(f"{prefix}.bin")
    for path in (index, data):
        if not path.is_file():
            hint = ""
            if Path(prefix).is_file():
                hint = f"; {prefix} is raw text, which fairseq-preprocess has to binarise"
            raise in_place_of(FileNotFoundError, f"{path}: no such file{hint}")
    with index.open("rb") as file:
        header = file.read(HEADER.size)
    if header.startswith(OTHER_MAGICS):
        return None
    if not header.startswith(MAGIC):
        raise in_place_of(AssertionError, f"{index}: must be an index of fairseq-preprocess, but has other content")
    if len(header) < HEADER.size:
        raise UserError(f"{index} is truncated: it ends within its header")
    _, version, code, sentences = HEADER.unpack(header)
    if version != 1 or code not in TYPES:
        raise UserError(
            f"{index}: must be version 1 with numbers of type {', '.join(map(str, TYPES))}, "
            f"but is version {version} with type {code}"
        )
    expected, got = HEADER.size + BYTES_A_SENTENCE * sentences, index.stat().st_size
    if got != expected:
        fault = f"{index}: must have {expected} bytes for its {sentences} sentences, but has {got}"
        raise in_place_of(ValueError, fault)
    if sentences == 0:
        raise UserError(f"{index}: contains no sentences")
    _check_tokens(index, data, sentences, TYPES[code], dictionary)
    return int(sentences)


def read_lengths(prefix: str) -> Optional["np.ndarray[Any, Any]"]:
    """Return the tokens of each sentence of one side, with the end of the sentence; None if its index is not whole."""
    import numpy as np

    index = Path(f"{prefix}.idx")
    if not index.is_file():
        return None
    with index.open("rb") as file:
        header = file.read(HEADER.size)
    if not header.startswith(MAGIC) or len(header) < HEADER.size:
        return None
    sentences = HEADER.unpack(header)[3]
    if not sentences or index.stat().st_size != HEADER.size + BYTES_A_SENTENCE * sentences:
        return None
    return np.memmap(index, np.int32, "r", HEADER.size, (sentences,))


def _check_tokens(index: Path, data: Path, sentences: int, kind: str, dictionary: Dictionary) -> None:
    """Compare the offsets with the lengths, the length of .bin with both, and every number with the dictionary."""
    import numpy as np

    lengths = np.memmap(index, np.int32, "r", HEADER.size, (sentences,))
    offsets = np.memmap(index, np.int64, "r", HEADER.size + 4 * sentences, (sentences,))
    ends = np.cumsum(lengths, dtype=np.int64)
    size = np.dtype(kind).itemsize
    if int(lengths.min()) < 1 or offsets[0] != 0 or not np.array_equal(offsets[1:], ends[:-1] * size):
        raise UserError(f"{index}: must have the offsets that its sentences' lengths add up to, but has others")
    tokens, got = int(ends[-1]), data.stat().st_size
    if got != tokens * size:
        fault = f"{data}: must have the {tokens * size} bytes that {index.name} says, but has {got}"
        raise in_place_of(ValueError, fault)
    numbers = np.memmap(data, kind, "r", shape=(tokens,))
    for start in range(0, tokens, BLOCK):
        block = numbers[start : start + BLOCK]
        if int(block.max()) >= dictionary.types or int(block.min()) < 0:
            place = start + int(np.argmax((block >= dictionary.types) | (block < 0)))
            raise UserError(
                f"{data}: token numbers must be below the {dictionary.types} types of {dictionary.path}, "
                f"but sentence {_sentence(ends, place)} has {numbers[place]}"
            )
    last: Any = numbers[ends - 1]
    if (last != END).any():
        number = int(np.argmax(last != END))
        raise UserError(
            f"{data}: sentences must end with </s> (number {END}), but sentence {number + 1} ends with {last[number]}"
        )


def _sentence(ends: "np.ndarray[Any, Any]", place: int) -> int:
    """Return the number, from 1, of the sentence that a token is in."""
    return int(ends.searchsorted(place, "right")) + 1


UNKNOWN = SPECIAL_SYMBOLS.index("<unk>")
# Dictionaries from this size on need 32 bits; fairseq keeps some numbers of 16 bits free.
LARGE = 65_500
CODES = {name: code for code, name in TYPES.items()}


@dataclass
class Binarised:
    """Counts of one side: sentences, tokens with their end symbols, and unknown tokens."""

    sentences: int = 0
    tokens: int = 0
    unknown: int = 0


def binarise(text: Path, prefix: str, types: Sequence[str]) -> Binarised:
    """Write PREFIX.bin and PREFIX.idx of a text in subwords, a sentence a line, by the numbers of a dictionary's types.

    Raises `UserError` if a line is not UTF-8, or has a symbol of fairseq's, or if the disk is full.
    """
    import numpy as np

    numbers = dict(zip(types, range(len(types))))
    kind, counts = kind_for(len(types)), Binarised()

    def blocks() -> Iterator[tuple["np.ndarray[Any, Any]", list[int]]]:
        for first, (block,) in read_blocks([text], LINES):
            lines = [line.split() for line in lines_of(block, str(text), first)]
            for number, line in enumerate(lines, start=first) if b"<" in block else ():
                if symbol := next(iter(STRUCTURAL.intersection(line)), ""):
                    raise UserError(f"{text}:{number}: must be text in subwords, but has fairseq's symbol {symbol}")
            found = np.fromiter(
                (numbers.get(word, UNKNOWN) for line in lines for word in (*line, SPECIAL_SYMBOLS[END])), kind
            )
            counts.sentences += len(lines)
            counts.tokens += len(found)
            counts.unknown += int((found == UNKNOWN).sum())
            yield found, [len(line) + 1 for line in lines]

    write_numbers(prefix, kind, blocks())
    return counts


def join(parts: Sequence[str], prefix: str, types: int) -> int:
    """Write PREFIX.bin and PREFIX.idx of several sides, one after the other; return the number of sentences.

    A side that is given several times is repeated. All numbers must be below `types`. Raises `UserError` if a side is
    missing or in an older format of fairseq's, or the disk is full.
    """
    import numpy as np

    kind = kind_for(types)

    def blocks() -> Iterator[tuple["np.ndarray[Any, Any]", Iterable[int]]]:
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

    return write_numbers(prefix, kind, blocks())


def kind_for(types: int) -> str:
    """Return numpy's name of the numbers that fairseq takes for a dictionary."""
    return "uint16" if types < LARGE else "uint32"


def write_numbers(prefix: str, kind: str, blocks: Iterable[tuple["np.ndarray[Any, Any]", Iterable[int]]]) -> int:
    """Write PREFIX.bin and PREFIX.idx, and return the number of sentences. Raises `UserError` if the disk is full.

    Args:
        prefix: name of the files without their endings
        kind: numpy's name of the numbers
        blocks: numbers, and the lengths of the sentences that end with these
    """
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
