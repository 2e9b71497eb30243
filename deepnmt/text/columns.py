"""Tables for a terminal."""

from collections.abc import Iterator, Sequence


def in_columns(rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Yield a line for each row, all of one length: the first columns flush left, all others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        flush = [str.ljust] * left + [str.rjust] * (len(row) - left)
        yield "  ".join(put(text, width) for put, text, width in zip(flush, row, widths))
