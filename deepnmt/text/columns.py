"""Tables for a terminal."""

from collections.abc import Iterator, Sequence


def in_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, all of one length: names to the left, all else to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for name, *values in rows:
        yield "  ".join([name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(values, widths[1:]))])
