"""Tables for a terminal, and as files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from deepnmt.console import write_whole


def in_columns(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Yield a line for each row, all of one length: the first columns flush left, all others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        flush = [str.ljust] * left + [str.rjust] * (len(row) - left)
        yield "  ".join(put(text, width) for put, text, width in zip(flush, row, widths))


def write_rows(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Write a line for each row, with tabs between the columns."""
    write_whole(path, "".join("\t".join(row) + "\n" for row in rows))
