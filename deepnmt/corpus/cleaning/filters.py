"""The filters of `deepnmt clean`, a row each, in the order of its help.

A row is enough for a filter. It gives the option and the line of a recipe, with help and range, the columns of --score,
the histogram, and a classifier's feature. Rows without a measure are for scores and duplicates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from deepnmt.corpus.cleaning.numbers import disagreeing_numbers
from deepnmt.text.words import LETTER

if TYPE_CHECKING:
    # numpy, for which --help need not wait.
    from deepnmt.corpus.cleaning.pair_chunk import Pairs, Side
    from deepnmt.corpus.cleaning.pair_measures import Fitted, Values

INTERVAL, LEAST, MOST, DEDUP, SCORE = "LOW:HIGH", "LEAST", "MOST", "pair|source|target", "FILE[:COLUMN] >= X"
ANY = math.inf
LONGEST_BLOCK = 3


@dataclass(frozen=True)
class Kind:
    """A kind of filter.

    Attributes:
        text: object of its measurement
        syntax: syntax of its value: INTERVAL, LEAST, MOST, DEDUP or SCORE
        default: its value by default; empty: a value is required
        low: lowest permitted bound
        high: highest permitted bound
        whole: bounds are whole numbers
        bins: bins of the histogram: from, to, number
        pair: measures pairs: a value for each
        side: measures the lines of one side of pairs: a value for each
        learnt: needs values learnt from a sample of the corpus
        needs: the required option, which `Fitted` has too
        logarithmic: a classifier uses log (1 + value)
    """

    text: str
    syntax: str
    default: str
    low: float = 0
    high: float = ANY
    whole: bool = False
    bins: tuple[float, float, int] = (0, 1, 40)
    pair: Optional[Callable[[Pairs, Any], Values]] = None
    side: Optional[Callable[[Side, Any], Values]] = None
    learnt: bool = False
    needs: str = ""
    logarithmic: bool = False

    @property
    def measures(self) -> bool:
        """Return whether it uses a measure of the pair itself."""
        return bool(self.pair or self.side)

    def is_given_to(self, given: Any) -> bool:
        """Return whether options, or learnt values of measures, have everything that it needs."""
        return not self.needs or bool(getattr(given, self.needs))


def length_ratio(source: Sequence[str], target: Sequence[str]) -> float:
    """Return target length / source length; infinite where the source alone is empty, else 0."""
    return len(target) / len(source) if source else ANY if target else 0.0


def share_in_common(source: Sequence[str], target: Sequence[str]) -> float:
    """Return the share of the different words of the longer side that the other side has too."""
    words, others = set(source), set(target)
    return len(words & others) / max(len(words), len(others), 1)


def repeated_words(words: Sequence[str]) -> int:
    """Return the length of the longest run of words that repeats the one, two or three words before it."""
    if len(set(words)) == len(words):
        return 0
    longest = 0
    for size in range(1, LONGEST_BLOCK + 1):
        run = 0
        for word, earlier in zip(words[size:], words):
            run = run + 1 if word == earlier else 0
            if run >= size and run > longest:
                longest = run
    return longest


def ends_with_punctuation(line: str) -> bool:
    """Return whether a line ends with a punctuation mark, or a symbol."""
    last = line.rstrip()[-1:]
    return bool(last) and not (last.isalnum() or last == "_" or LETTER.match(last))


def _language(side: Side, fitted: Fitted) -> Values:
    own, other = (fitted.characters[place].entropies(side.trigrams) for place in (side.place, 1 - side.place))
    return other - own


KINDS: Mapping[str, Kind] = {
    "length": Kind(
        "words on each side", INTERVAL, "1:100", whole=True, bins=(-0.5, 119.5, 60), logarithmic=True,
        side=lambda side, fitted: [len(words) for words in side.words],
    ),
    "ratio": Kind(
        "words of the target for each word of the source", INTERVAL, "", bins=(0, 4, 80), logarithmic=True,
        pair=lambda pairs, fitted: [length_ratio(*words) for words in pairs.words],
    ),
    "ratio-sigma": Kind(
        "standard deviations of the log length ratio from its median", MOST, "4", bins=(0, 8, 40), learnt=True,
        pair=lambda pairs, fitted: fitted.ratio.distances(pairs),
    ),
    "max-word": Kind(
        "characters of the longest word", MOST, "40", low=1, whole=True, bins=(-0.5, 59.5, 60), logarithmic=True,
        side=lambda side, fitted: [max(map(len, words), default=0) for words in side.words],
    ),
    "script": Kind(
        "share of the language's own letters among all letters", LEAST, "0.5", high=1,
        side=lambda side, fitted: side.script_shares(),
    ),
    "letters": Kind(
        "share of letters among all characters but white space", LEAST, "0.5", high=1,
        side=lambda side, fitted: side.letter_shares(),
    ),
    "numbers": Kind(
        "numbers without a partner on the other side; up to 12 they may be spelt out", MOST, "0", whole=True,
        bins=(-0.5, 9.5, 10), pair=lambda pairs, fitted: [disagreeing_numbers(*lines) for lines in pairs.lines],
    ),
    "no-copies": Kind(
        "share of the words that both sides have", MOST, "0.8", high=1,
        pair=lambda pairs, fitted: [share_in_common(*words) for words in pairs.folded],
    ),
    "repeats": Kind(
        "words in a row that repeat the one to three words before them", MOST, "1", whole=True,
        bins=(-0.5, 19.5, 20), logarithmic=True,
        side=lambda side, fitted: [repeated_words(words) for words in side.folded],
    ),
    "characters": Kind(
        "standard deviations by which the characters are less usual than the corpus's median", MOST, "6",
        bins=(-6, 14, 40), learnt=True,
        side=lambda side, fitted: fitted.characters[side.place](side.trigrams),
    ),
    "language": Kind(
        "margin by which the characters are more usual here than on the other side, in nats for each", LEAST, "0.2",
        low=-9, high=9, bins=(-2, 4, 48), learnt=True, side=_language,
    ),
    "endings": Kind(
        "1 if one side alone ends with a punctuation mark", MOST, "0", high=1, whole=True, bins=(-0.5, 1.5, 2),
        pair=lambda pairs, fitted: [len(set(map(ends_with_punctuation, lines))) - 1 for lines in pairs.lines],
    ),
    "partners": Kind(
        "mean log P of a side's words, given the other side, by the lexicons of --lexicon", LEAST, "",
        low=-ANY, high=0, bins=(-9.5, 0, 38), needs="lexicon",
        side=lambda side, fitted: fitted.lexicon.fits(side),
    ),
    "fluency": Kind(
        "cross entropy of each side, in nats a word, by --language-models", MOST, "", bins=(0, 16, 40),
        needs="language_models",
        side=lambda side, fitted: fitted.language_models[side.place].cross_entropies(side.plain),
    ),
    "score": Kind("score in a file, a line for each pair (>= or <=)", SCORE, "", low=-ANY),
    "dedup": Kind("pair, or one side of it, equal to an earlier one", DEDUP, "pair"),
}  # fmt: skip


def measures() -> Iterator[str]:
    """Yield the names of the filters that look at a measure of the pair itself."""
    return (name for name, kind in KINDS.items() if kind.measures)
