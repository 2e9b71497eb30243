"""Two texts whose lines are pairs, as words."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from deepnmt.text.lines import check_parallel, read_lines
from deepnmt.text.words import Words, spread, words_of


@dataclass(frozen=True)
class ParallelText:
    """The files of a source and a target.

    Attributes:
        source: its text
        target: its text
        raw: the text is not tokenised: words and signs are told apart here, and case is ignored
    """

    source: Path
    target: Path
    raw: bool = False

    def count(self) -> int:
        """Return the number of pairs. Raises `UserError` if the files have different numbers of lines, or none."""
        return check_parallel([self.source, self.target])

    def words(self, line: str) -> Words:
        """Return the words of a line."""
        return words_of(line, self.raw)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the lines of both sides."""
        return zip(read_lines(self.source), read_lines(self.target))

    def spread(self, number: int, total: int) -> Iterator[tuple[Words, Words]]:
        """Yield the words of `number` of the `total` pairs, evenly spread over the text; of all if there are fewer."""
        for source, target in spread(self.pairs(), number, total):
            yield self.words(source), self.words(target)

    def blocks(self, size: int) -> Iterator[list[tuple[str, str]]]:
        """Yield the lines of both sides, `size` pairs at a time."""
        pairs = self.pairs()
        while block := list(islice(pairs, size)):
            yield block
