"""A back-off model, and its scores of text.

    log P(w|h) = the entry of hw, if there is one; else backoff(h) + log P(w|h'), h' = h without its first word

An n-gram is a number: its place among the n-grams of its order. Order k keeps its n-grams by their keys, `number of the
first k - 1 words * types + last word`, in ascending order. One binary search per order thus finds all n-grams of a
text. Logarithms are to base 10, as in ARPA files.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from deepnmt.corpus.distinct import Keys, Numbers

UNKNOWN, BEGIN, END = SPECIAL = ("<unk>", "<s>", "</s>")
Logs = npt.NDArray[np.float32]
NATS = float(np.log(10))


@dataclass(frozen=True)
class Level:
    """The n-grams of one order.

    Attributes:
        keys: keys in ascending order; for order 1, the words' numbers
        log_p: log10 P of the last word after the others
        backoff: log10 of the weight where a word does not follow; 0 for the highest order
    """

    keys: Keys
    log_p: Logs
    backoff: Logs

    def find(self, keys: Keys) -> Numbers:
        """Return the numbers of n-grams, -1 for missing ones."""
        places = np.minimum(np.searchsorted(self.keys, keys), max(len(self.keys) - 1, 0))
        known = self.keys[places] == keys if len(self.keys) else np.zeros(len(keys), bool)
        return np.where(known, places, -1).astype(np.int32)


@dataclass(frozen=True)
class NgramModel:
    """A model: words by their numbers, `SPECIAL` first, and levels from order 1 up."""

    words: Sequence[str]
    levels: Sequence[Level]

    @cached_property
    def number(self) -> dict[str, int]:
        """The numbers of words; `SPECIAL` in a text are no words."""
        return {word: number for number, word in enumerate(self.words) if word not in SPECIAL}

    def log_probabilities(self, lines: Iterable[Sequence[str]]) -> tuple[npt.NDArray[np.float64], Numbers]:
        """Return log10 P of each word of lines, `</s>` included, one line after the other, and the lines' lengths."""
        unknown = SPECIAL.index(UNKNOWN)
        text, lengths = number_lines(lines, lambda word: self.number.get(word, unknown))
        score = self.levels[0].log_p[text].astype(np.float64)
        history = text  # the number of the n-gram of the next lower order that ends at a place
        for lower, level in zip(self.levels, self.levels[1:]):
            before = np.r_[np.int32(-1), history[:-1]]
            found = np.where(before >= 0, level.find(before.astype(np.int64) * len(self.words) + text), -1)
            backoff = np.where(before >= 0, lower.backoff[before] if len(lower.backoff) else 0, 0)
            score = np.where(found >= 0, level.log_p[found] if len(level.log_p) else 0, score + backoff)
            history = found.astype(np.int32)
        predicted = np.ones(len(text), bool)
        predicted[np.cumsum(lengths) - lengths] = False  # <s>
        return score[predicted], (lengths - 1).astype(np.int32)

    def cross_entropies(self, lines: Iterable[Sequence[str]]) -> npt.NDArray[np.float64]:
        """Return the cross entropy of each line in nats a word, `</s>` included."""
        score, lengths = self.log_probabilities(lines)
        if not len(lengths):
            return np.zeros(0)
        return -NATS * np.add.reduceat(score, np.cumsum(lengths) - lengths) / lengths


def number_lines(lines: Iterable[Sequence[str]], number: Callable[[str], int]) -> tuple[Numbers, npt.NDArray[np.int64]]:
    """Return the numbers of lines' words, each line between `<s>` and `</s>`, and the lengths with these."""
    begin, end = SPECIAL.index(BEGIN), SPECIAL.index(END)
    # Not lists, whose numbers take several times the memory.
    numbers, lengths = array("i"), array("q")
    for line in lines:
        numbers.append(begin)
        numbers.extend(map(number, line))
        numbers.append(end)
        lengths.append(len(line) + 2)
    return np.array(numbers, np.int32), np.array(lengths, np.int64)
