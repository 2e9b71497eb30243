"""Consecutive pairs of a corpus, and what several measures need of them: their words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from deepnmt.corpus.cleaning.character_model import Trigrams
from deepnmt.corpus.cleaning.code_points import CodePoints
from deepnmt.text.words import counted_words, words_alone


class Side:
    """The lines of one language.

    Args:
        lines: without their line feeds
        language: such as de
    """

    def __init__(self, lines: Sequence[str], language: str) -> None:
        self.lines = lines
        self.language = language

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of each line: what stands between white space, or words and signs of an unspaced language."""
        return [counted_words(line, self.language) for line in self.lines]

    @cached_property
    def codes(self) -> CodePoints:
        """The lines as code points."""
        return CodePoints(self.lines)

    @cached_property
    def trigrams(self) -> Trigrams:
        """The trigrams of the lines' characters."""
        return Trigrams(self.lines)

    @cached_property
    def types(self) -> list[list[str]]:
        """The words of each line without case and punctuation."""
        return [words_alone(line.casefold()) for line in self.lines]

    @cached_property
    def folded(self) -> list[list[str]]:
        """The words of each line without regard to case."""
        return Side([line.casefold() for line in self.lines], self.language).words


class Pairs:
    """Consecutive pairs of a corpus.

    Args:
        sources: their lines, without line feeds
        targets: as many
        languages: source and target
    """

    def __init__(self, sources: Sequence[str], targets: Sequence[str], languages: tuple[str, str]) -> None:
        assert len(sources) == len(targets)
        self.source, self.target = (Side(lines, name) for lines, name in zip((sources, targets), languages))

    def __len__(self) -> int:
        return len(self.source.lines)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Source and target."""
        return self.source, self.target
