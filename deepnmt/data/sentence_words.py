"""The words of binarised sentences: runs of pieces that are marked as continued, and the piece that ends them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deepnmt.text.subwords import SEPARATOR

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SentenceWords:
    """The words of a text, whose end symbols count as words.

    Attributes:
        kinds: pieces of each different word, as their numbers in the dictionary
        words: the kind of each word of the text, one sentence after the other
        lengths: words of each sentence
    """

    kinds: list[tuple[int, ...]]
    words: npt.NDArray[np.int32]
    lengths: Integers

    @property
    def lines(self) -> Integers:
        """The number of each word's sentence."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def places(self) -> Integers:
        """The place of each word in its sentence."""
        begins = np.cumsum(self.lengths) - self.lengths
        return np.arange(len(self.words)) - np.repeat(begins, self.lengths)


def words_of(sentences: Iterable[Sequence[int]], types: Sequence[str]) -> SentenceWords:
    """Return the words of sentences of token numbers.

    Args:
        sentences: each with its end symbol
        types: of the dictionary, by number
    """
    continued = [name.endswith(SEPARATOR) for name in types]
    numbers: dict[tuple[int, ...], int] = {}
    words: list[int] = []
    lengths: list[int] = []
    for sentence in sentences:
        before, pieces = len(words), []
        for token in sentence:
            pieces.append(token)
            if not continued[token]:
                words.append(numbers.setdefault(tuple(pieces), len(numbers)))
                pieces = []
        if pieces:
            words.append(numbers.setdefault(tuple(pieces), len(numbers)))
        lengths.append(len(words) - before)
    return SentenceWords(list(numbers), np.array(words, np.int32), np.array(lengths, np.int64))
