"""Interpolated modified Kneser-Ney (Chen and Goodman 1998, TR-10-98).

    P(w|h) = (a(hw) - D(a(hw))) / sum_v a(hv) + gamma(h) P(w|h'),  gamma(h) = sum_v D(a(hv)) / sum_v a(hv)

`h'` is h without its first word. Below one word, P is 1/V, with V the predictable types: all words, `</s>` and `<unk>`.
`a` is the count of the n-gram at the highest order, and where it begins with `<s>`. Otherwise it is the number of
different words that the n-gram follows. n_i is the number of n-grams of an order with a = i:

    Y = n_1 / (n_1 + 2 n_2),  D(i) = i - (i + 1) Y n_{i+1} / n_i for i = 1, 2, and D(3) for all above
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count as count_from
from typing import NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from deepnmt.corpus.distinct import Keys, Numbers, distinct
from deepnmt.corpus.ngram.ngram_model import BEGIN, SPECIAL, UNKNOWN, Level, NgramModel, number_lines

# KenLM's discounts, for texts so small or so regular that the formula fails.
FALLBACK = (0.5, 1.0, 1.5)
HIGHEST_ORDER = 6
Values = npt.NDArray[np.float64]


class Counted(NamedTuple):
    """The n-grams of one order, by number.

    Attributes:
        keys: see `Level`
        prefix: number of the n-gram without its last word
        suffix: number of the n-gram without its first word
        adjusted: the `a` of the formula
    """

    keys: Keys
    prefix: Numbers
    suffix: Numbers
    adjusted: npt.NDArray[np.int64]


@dataclass
class Text:
    """The words of a text by number, as it is read.

    Attributes:
        words: words by their numbers
        numbers: number of each word of the text, with `<s>` and `</s>` around each line
        places: place of each of these in its line
    """

    words: list[str]
    numbers: Numbers
    places: Numbers

    @classmethod
    def of(cls, lines: Iterable[Sequence[str]], known: Optional[set[str]] = None) -> "Text":
        """Return the text of lines of words.

        `known` words are not `<unk>`, even if missing from the lines; by default all but `SPECIAL`.
        """
        unknown = SPECIAL.index(UNKNOWN)
        number: dict[str, int] = defaultdict(count_from(len(SPECIAL)).__next__, dict.fromkeys(SPECIAL, unknown))
        for word in sorted((known or set()) - set(SPECIAL)):
            number[word]
        numbers, sizes = number_lines(
            lines, number.__getitem__ if known is None else lambda word: number.get(word, unknown)
        )
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        words = [*SPECIAL, *list(number)[len(SPECIAL) :]]
        return cls(words, numbers, (np.arange(len(numbers)) - starts).astype(np.int32))


def count(text: Text, order: int) -> list[Counted]:
    """Return the n-grams of each order up to one."""
    types = len(text.words)
    raw = np.bincount(text.numbers, minlength=types)
    zeros = np.zeros(types, np.int32)
    result = [Counted(np.arange(types), zeros, zeros, raw)]
    ends, numbers = np.arange(len(text.numbers)), text.numbers  # of the n-grams: where they end, which they are
    for size in range(2, order + 1):
        # An n-gram ends at each word that has as many before it in its line.
        longer = text.places[ends] >= size - 1
        suffix = numbers[longer]
        before = np.flatnonzero(longer) - 1
        prefix, last = numbers[before], text.numbers[ends[longer]]
        ends = ends[longer]
        keys, inverse = distinct(prefix, last, types) if len(ends) else (np.zeros(0, np.int64), np.zeros(0, np.int32))
        some = np.empty(len(keys), np.int64)
        some[inverse] = np.arange(len(inverse))
        raw = np.bincount(inverse, minlength=len(keys))
        # The next lower order counts the different words that its n-grams follow.
        lower = result[-1]
        follows = np.bincount(suffix[some], minlength=len(lower.keys))
        result[-1] = lower._replace(adjusted=np.where(follows > 0, follows, lower.adjusted))
        result.append(Counted(keys, prefix[some], suffix[some], raw))
        numbers = inverse
    return result


def discounts(adjusted: npt.NDArray[np.int64]) -> tuple[tuple[float, float, float], bool]:
    """Return D(1), D(2), D(3) for the counts of one order, and whether they are the formula's."""
    n = np.bincount(np.minimum(adjusted, 5), minlength=6)[1:5].astype(float)
    if (n == 0).any():
        return FALLBACK, False
    y = n[0] / (n[0] + 2 * n[1])
    one, two, three = (i - (i + 1) * y * n[i] / n[i - 1] for i in (1, 2, 3))
    # With a discount of 0 a history may have no weight left for other words, and a file cannot hold log 0.
    if all(0 < d <= i for i, d in ((1, one), (2, two), (3, three))):
        return (one, two, three), True
    return FALLBACK, False


def estimate(lines: Iterable[Sequence[str]], order: int, known: Optional[set[str]] = None) -> NgramModel:
    """Return the model of lines of words, of a lower order if no line is long enough for this one.

    Orders are from 1 to `HIGHEST_ORDER`. `known` words are not `<unk>`, even if missing from the lines; by default all.
    """
    text = Text.of(lines, known)
    counted = [level for level in count(text, order) if len(level.keys)]
    if len(counted) < order:
        longest = max(len(counted) - 2, 0)
        print(
            f"warning: --order {order}: the longest line has {longest} words; the order is {len(counted)}",
            file=sys.stderr,
        )
    types = len(text.words)
    # Nothing predicts <s>.
    counted[0].adjusted[SPECIAL.index(BEGIN)] = 0
    levels: list[Level] = []
    below: Values = np.full(types, 1 / (types - 1))
    for size, level in enumerate(counted, start=1):
        d, by_formula = discounts(level.adjusted)
        if not by_formula:
            print(f"warning: order {size}: too little text for the formula of discounts; they are {d}", file=sys.stderr)
        discount = np.array([0.0, *d])[np.minimum(level.adjusted, 3)]
        histories = len(levels[-1].keys) if levels else 1
        total = np.bincount(level.prefix, level.adjusted.astype(float), histories)
        gamma = np.bincount(level.prefix, discount, histories)
        gamma = np.divide(gamma, total, out=np.ones_like(gamma), where=total > 0)
        own = (level.adjusted - discount) / np.maximum(total, 1)[level.prefix]
        p = own + gamma[level.prefix] * below[level.suffix]
        if levels:
            levels[-1] = Level(levels[-1].keys, levels[-1].log_p, np.log10(gamma).astype(np.float32))
        levels.append(Level(level.keys, np.log10(p).astype(np.float32), np.zeros(len(p), np.float32)))
        below = p
    levels[0].log_p[SPECIAL.index(BEGIN)] = -99
    return NgramModel(text.words, levels)
