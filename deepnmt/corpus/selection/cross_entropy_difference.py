"""How like a text lines are, by two language models (Moore and Lewis 2010, P10-2041).

    score(x) = H_all(x) - H_in(x)

H in nats a word: `in` is the model of the text, `all` that of as many lines of all that are chosen from. Both know the
same words, those that the text has at least twice, whether the sample has them or not: else one model would explain
rare words better for no reason.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from deepnmt.corpus.ngram.kneser_ney import estimate
from deepnmt.text.words import Words

ORDER = 3


class CrossEntropyDifference:
    """Scores lines by their likeness to a text.

    Args:
        sample: as many lines as the text has, of all that are chosen from
        like: the text
    """

    def __init__(self, sample: Iterable[Words], like: Sequence[Words]) -> None:
        counts = Counter(word for line in like for word in line)
        known = {word for word, count in counts.items() if count > 1}
        self._inside = estimate(like, ORDER, known)
        self._all = estimate(sample, ORDER, known)

    def __call__(self, lines: Sequence[Words]) -> npt.NDArray[np.float64]:
        """Return the scores of lines."""
        return self._all.cross_entropies(lines) - self._inside.cross_entropies(lines)
