"""Text files: UTF-8 with or without a byte order mark, lines ended by a line feed alone.

Python's `str.splitlines` and text mode also end a line at U+2028, a form feed or a carriage return. `wc` and the other
side of the corpus do not. Nothing here uses them. All text files are read here, as a test ensures: a byte order mark is
never part of a first line.
"""

import codecs
import os
import re
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path

from deepnmt.errors import UserError

CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
CHUNK = 1 << 20
# UTF-32's marks begin with UTF-16's in one byte order, and with zeros in the other.
OTHER_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


def clean(line: str) -> str:
    """Return a line without control characters and byte order marks, with single spaces for all white space."""
    # Among printable characters, the space alone is white space.
    if line.isprintable() and "  " not in line:
        return line.strip(" ")
    return " ".join(CONTROL.sub(" ", line.replace("\ufeff", "")).split())


def open_file(path: Path) -> BufferedReader:
    """Open a file to read its bytes. Raises `UserError` for a named pipe or a device, which may never end."""
    if is_named_pipe(path):
        raise UserError(f"{path}: must be a file, but is a named pipe")
    file = path.open("rb")
    if path.is_char_device() and not file.isatty() and os.path.realpath(path) != os.devnull:
        file.close()
        raise UserError(f"{path}: must be a file, but is a device")
    return file


def is_named_pipe(path: Path) -> bool:
    """Return whether a path is a pipe in a folder; a pipe of a shell's `<(command)` is somewhere below /dev."""
    return path.is_fifo() and path.parts[:2] != ("/", "dev")


def count_lines(path: Path) -> int:
    """Return the number of lines; the last may lack its line feed. Raises `UserError` if there are no lines."""
    lines, last = 0, b"\n"
    with open_file(path) as file:
        chunk = file.read(CHUNK)
        without_mark(chunk, str(path))
        while chunk:
            lines += chunk.count(b"\n")
            last = chunk[-1:]
            chunk = file.read(CHUNK)
    lines += last != b"\n"
    if lines == 0:
        raise UserError(f"{path} is empty")
    return lines


def without_mark(beginning: bytes, name: str) -> bytes:
    """Return the first bytes of a file, at least its first line, without a byte order mark.

    Raises `UserError` for UTF-16 and UTF-32.
    """
    if beginning.startswith(OTHER_MARKS):
        raise UserError(f"{name}: must be UTF-8, but has the byte order mark of UTF-16 or UTF-32")
    return beginning.removeprefix(codecs.BOM_UTF8)


def whole_text(path: Path, errors: str = "strict") -> str:
    """Return the text of a file.

    Args:
        errors: `replace` for a log, which may be cut off within a character

    Raises:
        UserError: it is UTF-16 or UTF-32
        UnicodeDecodeError: it is no UTF-8
    """
    with open_file(path) as file:
        return without_mark(file.read(), str(path)).decode("utf-8", errors)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines, each with its line feed. Raises `UserError` with the number of a line that is not UTF-8."""
    with open_file(path) as file:
        yield from decode_lines(file, str(path))


def decode_lines(lines: Iterable[bytes], name: str, first: int = 1) -> Iterator[str]:
    """Yield lines of bytes as text. Raises `UserError` with the number of a line that is not UTF-8.

    Args:
        first: number of the first line; the file's own first line may begin with a byte order mark
    """
    for number, line in enumerate(lines, start=first):
        if number == 1:
            line = without_mark(line, name)
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise UserError(
                f"{name}:{number}: invalid UTF-8 (byte 0x{byte:02x} at position {error.start + 1} of the line)"
            ) from None


def read_text(path: Path) -> list[str]:
    """Return the lines without their line feeds. Raises `UserError` if there are no lines, or one is not UTF-8."""
    lines = [line[:-1] if line.endswith("\n") else line for line in read_lines(path)]
    if not any(line.strip() for line in lines):
        raise UserError(f"{path} is empty")
    return lines


def check_parallel(paths: Iterable[Path]) -> int:
    """Return the number of lines of all the files. Raises `UserError` if they differ."""
    counts = {path: count_lines(path) for path in paths}
    (first, lines), *others = counts.items()
    for path, other in others:
        if other != lines:
            raise UserError(f"{first} has {lines} lines, but {path} has {other}: line n of both must be one pair")
    return lines
