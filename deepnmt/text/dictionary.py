"""fairseq's dictionary files: a type and its count on each line."""

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Optional

from deepnmt.errors import UserError, in_place_of
from deepnmt.text.lines import open_file, read_lines

# fairseq numbers them 0 to 3; its dictionary files do not list them.
SPECIAL_SYMBOLS = ("<s>", "<pad>", "</s>", "<unk>")
END = SPECIAL_SYMBOLS.index("</s>")
# A writer of these among subwords means something else; a search writes `<unk>`, too.
STRUCTURAL = frozenset(SPECIAL_SYMBOLS) - {"<unk>"}
OVERWRITE = " #fairseq:overwrite"
COUNT = re.compile(r"[+-]?\d+")
# Of a language model, beside its checkpoints.
LM_DICTIONARY = "dict.txt"


def check_dictionary(path: Path) -> int:
    """Return the number of types of a dictionary file, the special symbols included; raises as `read_types`."""
    return len(read_types(path))


def read_types(path: Path) -> list[str]:
    """Return the types of a dictionary file by their numbers, the special symbols first.

    Of a type that a later line overwrites, the last number counts. Raises `UserError` if the file is missing, no file,
    empty or not UTF-8. A line without a count, or with a type of an earlier line, is refused, too.
    """
    if not path.is_file():
        is_other = path.exists()
        message = "must be a file, but is a folder or pipe" if is_other else "no such dictionary"
        raise in_place_of(OSError if is_other else FileNotFoundError, f"{path}: {message}")
    with open_file(path) as file:
        if file.read(len(BOM_UTF8)) == BOM_UTF8:
            # fairseq reads the file itself.
            raise UserError(f"{path}:1: must be a type and its count, but begins with a byte order mark; remove it")
    lines_of = dict.fromkeys(SPECIAL_SYMBOLS, 0)
    types, number = list(SPECIAL_SYMBOLS), 0
    for number, line in enumerate(read_lines(path), start=1):
        # As fairseq reads it: a type may hold spaces.
        text = line.rstrip()
        overwrites = text.endswith(OVERWRITE)
        word, space, count = text.removesuffix(OVERWRITE).rpartition(" ")
        if not space or not COUNT.fullmatch(count) or "\r" in word:
            raise in_place_of(ValueError, f"{path}:{number}: must be a type and its count, but is '{text[:60]}'")
        if word in lines_of and not overwrites:
            first = lines_of[word]
            raise in_place_of(
                RuntimeError,
                f"{path}:{number}: must be a type that has no line yet, but '{word[:60]}' "
                + (f"has line {first}" if first else "is fairseq's own"),
            )
        lines_of.setdefault(word, number)
        types.append(word)
    if not number:
        raise UserError(f"{path}: must have types, but is empty")
    return types


def other_types(wanted: Sequence[str], own: Sequence[str]) -> Optional[str]:
    """Return the words of a fault about the first number with different types in two equally long dictionaries."""
    for number, (type_, other) in enumerate(zip(wanted, own)):
        if type_ != other:
            return f"where type {number} is '{type_}', but is of one where it is '{other}'"
    return None


def append_types(path: Path, symbols: Iterable[str]) -> None:
    """Append symbols that a dictionary file does not have yet, so that the types it has keep their numbers."""
    known = set(read_types(path))
    text = path.read_bytes()
    with path.open("ab") as file:
        if not text.endswith(b"\n"):
            file.write(b"\n")
        file.write("".join(f"{symbol} 0\n" for symbol in symbols if symbol not in known).encode("utf-8"))
