"""Consecutive pairs of a corpus, and their words, which several measures need."""

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from deepnmt.corpus.cleaning.character_model import CodePoints, Floats, Trigrams
from deepnmt.corpus.cleaning.writing_systems import letters, letters_of, spaces
from deepnmt.text.words import counted_words, words_alone, words_of


class Side:
    """The lines of one language, without their line feeds; place 0 is the source, 1 the target."""

    other: "Side"

    def __init__(self, lines: Sequence[str], language: str, place: int = 0) -> None:
        self.lines, self.language, self.place = lines, language, place

    @cached_property
    def words(self) -> list[list[str]]:
        """The words of each line: text between white space, or words and signs of an unspaced language."""
        return [counted_words(line, self.language) for line in self.lines]

    @cached_property
    def plain(self) -> list[list[str]]:
        """The words and signs of each line without regard to case, as `ngram` and `align` tell them apart by --raw."""
        return [words_of(line, raw=True) for line in self.lines]

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

    def letter_shares(self) -> Floats:
        """Return the share of letters among the characters of each line that are not white space."""
        return _share(self.codes.count(letters()), self.codes.lengths - self.codes.count(spaces()))

    def script_shares(self) -> Floats:
        """Return the share of the language's own letters among the letters of each line."""
        return _share(self.codes.count(letters_of(self.language)), self.codes.count(letters()))


def _share(part: Floats, whole: Floats) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), 1)


class Pairs:
    """Consecutive pairs of a corpus; lines have no line feeds."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str], languages: tuple[str, str]) -> None:
        assert len(sources) == len(targets)
        self.source, self.target = Side(sources, languages[0], 0), Side(targets, languages[1], 1)
        self.source.other, self.target.other = self.target, self.source

    def __len__(self) -> int:
        return len(self.source.lines)

    @property
    def sides(self) -> tuple[Side, Side]:
        """Source and target."""
        return self.source, self.target

    @property
    def lines(self) -> Iterator[tuple[str, str]]:
        """The lines of each pair."""
        return zip(self.source.lines, self.target.lines)

    @property
    def words(self) -> Iterator[tuple[list[str], list[str]]]:
        """The words of each pair, see `Side.words`."""
        return zip(self.source.words, self.target.words)

    @property
    def folded(self) -> Iterator[tuple[list[str], list[str]]]:
        """The words of each pair without regard to case."""
        return zip(self.source.folded, self.target.folded)
