"""The texts of LibreOffice's interface, from its message catalogues (GNU gettext, .mo)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from deepnmt.errors import UserError

MAGIC = 0x950412DE
HEADER = struct.Struct("<7I")
ENTRY = struct.Struct("<II")  # length and place of a text
# A key may follow its context; further texts of either side are plural forms.
CONTEXT, PLURAL = "\x04", "\0"
# Keys of the keyboard: a sign before the letter, or the letter in brackets at the end.
BRACKETED = re.compile(r" ?\([_~&]\w\)(?=(\.\.\.|…|:|：)?$)")
MARK = re.compile(r"[_~](?=\w)")
# Names, whose underscores are their own.
NAME = re.compile(r"[A-Z\d]{2,}_[A-Z\d]+|_\w+_")


def read_catalogs(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield English and translated texts of all catalogues below a folder, without keys of the keyboard."""
    for path in sorted(folder.rglob("*.mo")):
        for english, translation in read_catalog(path):
            yield without_keys(english), without_keys(translation)


def read_catalog(path: Path) -> Iterator[tuple[str, str]]:
    """Yield English and translated text of each entry that has one form. Raises `UserError` if the file is damaged."""
    content = path.read_bytes()
    try:
        magic, _, number, originals, translations, *_ = HEADER.unpack_from(content)
        if magic != MAGIC:
            raise ValueError("another format")
        for index in range(number):
            key, translation = (_text(content, table + index * ENTRY.size) for table in (originals, translations))
            english = key.rpartition(CONTEXT)[2]
            if english and translation and PLURAL not in english:
                yield english, translation
    except (struct.error, ValueError) as error:
        raise UserError(f"{path}: must be a message catalogue of gettext, but is damaged: {error}") from None


def _text(content: bytes, place: int) -> str:
    length, start = ENTRY.unpack_from(content, place)
    if start + length > len(content):
        raise ValueError("a text ends beyond the file")
    return content[start : start + length].decode("utf-8")


def without_keys(text: str) -> str:
    """Return a text without marks of keyboard keys, on one line."""
    text = BRACKETED.sub("", text)
    return " ".join((text if NAME.search(text) else MARK.sub("", text, count=1)).split())
