"""The best pairs by a score, and poorer ones for what else would be unseen.

Quality and coverage pull apart: the best pairs are often the short and common ones. A pair that the score leaves out
stays if it has a word that is kept fewer than C times so far, the best of these pairs first.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deepnmt.corpus.cleaning.pair_chunk import Pairs
from deepnmt.errors import UserError

Word = tuple[int, str]


@dataclass(frozen=True)
class Best:
    """How many pairs are kept: a number, or a share of those that pass the filters."""

    text: str

    def check(self) -> None:
        """Raise `UserError` if it is neither a number nor a share."""
        try:
            right = 0 < float(self.text) <= 1 if "." in self.text else int(self.text) >= 1
        except ValueError:
            right = False
        if not right:
            raise UserError(f"--keep-best must be a number of pairs, or a share such as 0.9, but is '{self.text}'")

    def of(self, pairs: int) -> int:
        """Return how many of some pairs are kept."""
        return min(pairs, max(round(float(self.text) * pairs), 1) if "." in self.text else int(self.text))


def ranked(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the places of scores, the best first; of equal ones the first is better."""
    return np.argsort(-scores, kind="stable")


def words_of(pairs: Pairs) -> Iterator[list[Word]]:
    """Yield the words of each pair, each with its side, without case and punctuation."""
    for source, target in zip(pairs.source.types, pairs.target.types):
        yield [*((0, word) for word in source), *((1, word) for word in target)]


def seen_too_rarely(
    chunks: Callable[[], Iterator[tuple[Pairs, NDArray[np.bool_], NDArray[np.bool_]]]], least: int
) -> tuple[Counter[Word], list[list[Word]]]:
    """Return how often words are kept, and of each pair left out the words that are kept too rarely.

    Memory grows with the different words of the pairs, and with the rare words of those left out.

    Args:
        chunks: yields pairs, and which of them are kept, and left out; is called twice
        least: how often a word should be kept
    """
    counts: Counter[Word] = Counter()
    for pairs, kept, _ in chunks():
        for words, there in zip(words_of(pairs), kept):
            if there:
                counts.update(words)
    rare: list[list[Word]] = []
    for pairs, _, left_out in chunks():
        for words, there in zip(words_of(pairs), left_out):
            if there:
                rare.append([word for word in words if counts[word] < least])
    return counts, rare


def needed(counts: Counter[Word], rare: Sequence[Sequence[Word]], order: Sequence[int], least: int) -> list[int]:
    """Return which of the pairs left out are kept after all.

    Args:
        counts: how often words are kept; changed
        rare: words that are kept too rarely, of each pair left out
        order: of these pairs, the best first
        least: how often a word should be kept
    """
    back = []
    for place in order:
        if any(counts[word] < least for word in rare[place]):
            counts.update(rare[place])
            back.append(place)
    return back
