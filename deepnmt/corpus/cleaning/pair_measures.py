"""Numbers that say how good a pair is: a column for each side of it, or one for the pair.

| name          | value                                                      | columns   |
| ------------- | ---------------------------------------------------------- | --------- |
| `length`      | words of a line                                            | each side |
| `ratio`       | words of the target / words of the source                  | pair      |
| `ratio-sigma` | abs(log ratio - median) / sigma, of the corpus; see Spread | pair      |
| `max-word`    | characters of the longest word                             | each side |
| `script`      | share of the language's letters among all letters          | each side |
| `letters`     | share of letters among the signs that are no white space   | each side |
| `numbers`     | numbers without a partner on the other side                | pair      |
| `no-copies`   | share of words, without regard to case, that both have     | pair      |
| `repeats`     | words in a row that repeat the one to three before them    | each side |
| `characters`  | how unusual the characters are, in standard deviations     | each side |
| `language`    | how much more usual they are here than on the other side   | each side |
| `endings`     | 1 where one side alone ends with a sign of punctuation     | pair      |
| `partners`    | mean log P of the words, the other side given; see lexicon | each side |
| `fluency`     | cross entropy in nats a word, by an n-gram language model  | each side |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np
from numpy.typing import NDArray

from deepnmt.corpus.cleaning.character_model import SIGMA, CharacterModel, Trigrams
from deepnmt.corpus.cleaning.code_points import Floats
from deepnmt.corpus.cleaning.numbers import HAS_NUMBER, disagreeing_numbers
from deepnmt.corpus.cleaning.pair_chunk import Pairs, Side
from deepnmt.corpus.cleaning.pair_lexicon import PairLexicon
from deepnmt.corpus.cleaning.writing_systems import letters, letters_of, spaces
from deepnmt.corpus.ngram.ngram_model import NgramModel
from deepnmt.text.words import LETTER, words_of

Values = Sequence[float] | Floats
LONGEST_BLOCK = 3


@dataclass(frozen=True)
class Spread:
    """Middle and width of the logarithm of the length ratio."""

    middle: float = 0.0
    sigma: float = 1.0

    @classmethod
    def of(cls, pairs: Pairs) -> Spread:
        """Return the spread over pairs, by percentiles, so that faulty pairs do not widen it.

        Lengths are whole numbers: sigma is at least the change of the ratio by half a word, in the median of the
        shorter sides. Where most pairs have one ratio, the percentiles know of no spread.
        """
        lengths = np.array(
            [(len(source), len(target)) for source, target in zip(pairs.source.words, pairs.target.words)]
        )
        lengths = lengths[lengths.all(axis=1)] if len(lengths) else lengths
        if not len(lengths):
            return cls()
        low, middle, high = np.percentile(np.log(lengths[:, 1] / lengths[:, 0]), SIGMA)
        half_a_word = np.log1p(0.5 / np.median(lengths.min(axis=1)))
        return cls(float(middle), max(float(high - low) / 2, float(half_a_word)))

    def distances(self, pairs: Pairs) -> Values:
        """Return how far each pair is from the middle, in sigmas."""
        with np.errstate(divide="ignore"):
            return np.abs(np.log(length_ratios(pairs)) - self.middle) / self.sigma


@dataclass(frozen=True)
class Fitted:
    """What measures have learnt from the corpus.

    Attributes:
        ratio: of the lengths
        characters: of source and target
        lexicon: of align.sh; None where there is none
        language_models: of source and target, by ngram.sh; None where there are none
    """

    ratio: Spread
    characters: tuple[CharacterModel, CharacterModel]
    lexicon: Optional[PairLexicon] = None
    language_models: Optional[tuple[NgramModel, NgramModel]] = None

    @classmethod
    def of(cls, pairs: Pairs) -> Fitted:
        """Return what is learnt from some pairs."""
        source, target = (CharacterModel.learn(side.trigrams) for side in pairs.sides)
        return cls(Spread.of(pairs), (source, target))


NOTHING = Fitted(Spread(), (CharacterModel.learn(Trigrams([])), CharacterModel.learn(Trigrams([]))))


@dataclass(frozen=True)
class Measure:
    """A measure of pairs.

    Attributes:
        by_side: it is a column for each side, and not one for the pair
        edges: of the bins of its histogram
    """

    by_side: bool
    edges: tuple[float, ...]


def _even(low: float, high: float, bins: int) -> tuple[float, ...]:
    return tuple(float(edge) for edge in np.linspace(low, high, bins + 1))


MEASURES: Mapping[str, Measure] = {
    "length": Measure(True, _even(-0.5, 119.5, 60)),
    "ratio": Measure(False, _even(0, 4, 80)),
    "ratio-sigma": Measure(False, _even(0, 8, 40)),
    "max-word": Measure(True, _even(-0.5, 59.5, 60)),
    "script": Measure(True, _even(0, 1, 40)),
    "letters": Measure(True, _even(0, 1, 40)),
    "numbers": Measure(False, _even(-0.5, 9.5, 10)),
    "no-copies": Measure(False, _even(0, 1, 40)),
    "repeats": Measure(True, _even(-0.5, 19.5, 20)),
    "characters": Measure(True, _even(-6, 14, 40)),
    "language": Measure(True, _even(-2, 4, 48)),
    "endings": Measure(False, _even(-0.5, 1.5, 2)),
    "partners": Measure(True, _even(-9.5, 0, 38)),
    "fluency": Measure(True, _even(0, 16, 40)),
}


def columns_of(name: str, languages: tuple[str, str]) -> tuple[str, ...]:
    """Return the names of a measure's columns."""
    return tuple(f"{name}.{language}" for language in languages) if MEASURES[name].by_side else (name,)


def measured(name: str, pairs: Pairs, fitted: Fitted) -> NDArray[np.float32]:
    """Return the values of a measure: pairs x columns."""
    if name == "partners":
        assert fitted.lexicon is not None
        return fitted.lexicon.fits(pairs.source.lines, pairs.target.lines).astype(np.float32)
    if name == "fluency":
        assert fitted.language_models is not None
        return np.stack([_fluency(side, model) for side, model in zip(pairs.sides, fitted.language_models)], axis=1)
    if not MEASURES[name].by_side:
        return np.asarray(_OF_PAIRS[name](pairs, fitted), dtype=np.float32)[:, None]
    models = fitted.characters, fitted.characters[::-1]
    values = [_OF_SIDES[name](side, *both) for side, both in zip(pairs.sides, models)]
    return np.stack([np.asarray(value, dtype=np.float32) for value in values], axis=1)


def length_ratios(pairs: Pairs) -> list[float]:
    """Return target length / source length of each pair; infinite where the source alone is empty, else 0."""
    return [
        len(target) / len(source) if source else float("inf") if target else 0.0
        for source, target in zip(pairs.source.words, pairs.target.words)
    ]


def shares_in_common(pairs: Pairs) -> list[float]:
    """Return the share of the different words of the longer side that the other side has too."""
    shares = []
    for words, others in zip(pairs.source.folded, pairs.target.folded):
        source, target = set(words), set(others)
        shares.append(len(source & target) / max(len(source), len(target), 1))
    return shares


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


def lone_endings(pairs: Pairs) -> list[float]:
    """Return 1 for each pair of which one side alone ends with punctuation, else 0."""
    lines = zip(pairs.source.lines, pairs.target.lines)
    return [float(_ends_with_punctuation(one) != _ends_with_punctuation(other)) for one, other in lines]


def _ends_with_punctuation(line: str) -> bool:
    last = line.rstrip()[-1:]
    return bool(last) and not (last.isalnum() or last == "_" or LETTER.match(last))


def _fluency(side: Side, model: NgramModel) -> NDArray[np.float32]:
    # As `ngram.sh --raw` tells words and signs apart.
    return model.cross_entropies(words_of(line, raw=True) for line in side.lines).astype(np.float32)


def _numbers(pairs: Pairs, fitted: Fitted) -> Values:
    return [
        disagreeing_numbers(source, target) if HAS_NUMBER.search(source) or HAS_NUMBER.search(target) else 0
        for source, target in zip(pairs.source.lines, pairs.target.lines)
    ]


def _letters(side: Side) -> Values:
    return _share(side.codes.count(letters()), side.codes.lengths - side.codes.count(spaces()))


def _script(side: Side) -> Values:
    return _share(side.codes.count(letters_of(side.language)), side.codes.count(letters()))


def _share(part: Floats, whole: Floats) -> Floats:
    return np.where(whole > 0, part / np.maximum(whole, 1), 1)


_OF_PAIRS: Mapping[str, Callable[[Pairs, Fitted], Values]] = {
    "ratio": lambda pairs, fitted: length_ratios(pairs),
    "ratio-sigma": lambda pairs, fitted: fitted.ratio.distances(pairs),
    "numbers": _numbers,
    "no-copies": lambda pairs, fitted: shares_in_common(pairs),
    "endings": lambda pairs, fitted: lone_endings(pairs),
}
_OF_SIDES: Mapping[str, Callable[[Side, CharacterModel, CharacterModel], Values]] = {
    "length": lambda side, model, other: [len(words) for words in side.words],
    "max-word": lambda side, model, other: [max(map(len, words), default=0) for words in side.words],
    "script": lambda side, model, other: _script(side),
    "letters": lambda side, model, other: _letters(side),
    "repeats": lambda side, model, other: [repeated_words(words) for words in side.folded],
    "characters": lambda side, model, other: model(side.trigrams),
    "language": lambda side, model, other: other.entropies(side.trigrams) - model.entropies(side.trigrams),
}
