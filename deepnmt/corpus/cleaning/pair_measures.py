"""The values of measures of pairs (`filters`), and their learning from the corpus."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deepnmt.corpus.cleaning.character_model import SIGMA, CharacterModel, Floats, Trigrams
from deepnmt.corpus.cleaning.filters import KINDS, length_ratio
from deepnmt.corpus.cleaning.pair_chunk import Pairs
from deepnmt.corpus.cleaning.pair_lexicon import PairLexicon
from deepnmt.corpus.ngram.ngram_model import NgramModel

Values = Sequence[float] | Floats


@dataclass(frozen=True)
class Spread:
    """Middle and width of the logarithm of the length ratio."""

    middle: float = 0.0
    sigma: float = 1.0

    @classmethod
    def of(cls, pairs: Pairs) -> "Spread":
        """Return the spread over pairs, by percentiles, so that faulty pairs do not widen it.

        Lengths are whole numbers: sigma is at least the change of the ratio by half a word, in the median of the
        shorter sides. Where most pairs have one ratio, the percentiles know of no spread.
        """
        lengths = np.array([(len(source), len(target)) for source, target in pairs.words])
        lengths = lengths[lengths.all(axis=1)] if len(lengths) else lengths
        if not len(lengths):
            return cls()
        low, middle, high = np.percentile(np.log(lengths[:, 1] / lengths[:, 0]), SIGMA)
        half_a_word = np.log1p(0.5 / np.median(lengths.min(axis=1)))
        return cls(float(middle), max(float(high - low) / 2, float(half_a_word)))

    def distances(self, pairs: Pairs) -> Values:
        """Return how far each pair is from the middle, in sigmas."""
        with np.errstate(divide="ignore"):
            ratios = [length_ratio(*words) for words in pairs.words]
            return np.abs(np.log(ratios) - self.middle) / self.sigma


@dataclass(frozen=True)
class Fitted:
    """Values that measures have learnt from the corpus, and the given models of `align` and `ngram`, if any."""

    ratio: Spread
    characters: tuple[CharacterModel, CharacterModel]
    lexicon: PairLexicon | None = None
    language_models: tuple[NgramModel, NgramModel] | None = None

    @classmethod
    def of(cls, pairs: Pairs) -> "Fitted":
        """Return the values learnt from some pairs."""
        source, target = (CharacterModel.learn(side.trigrams) for side in pairs.sides)
        return cls(Spread.of(pairs), (source, target))


NOTHING = Fitted(Spread(), (CharacterModel.learn(Trigrams([])), CharacterModel.learn(Trigrams([]))))


def columns_of(name: str, languages: tuple[str, str]) -> tuple[str, ...]:
    """Return the names of a measure's columns: one for each side, or one for the pair."""
    return tuple(f"{name}.{language}" for language in languages) if KINDS[name].side else (name,)


def measured(name: str, pairs: Pairs, fitted: Fitted) -> NDArray[np.float32]:
    """Return the values of a measure: pairs x columns."""
    kind = KINDS[name]
    columns = [kind.side(side, fitted) for side in pairs.sides] if kind.side else []
    columns += [kind.pair(pairs, fitted)] if kind.pair else []
    return np.stack([np.asarray(column, dtype=np.float32) for column in columns], axis=1)
