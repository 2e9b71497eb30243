"""How like a text lines are, by the words that they share.

    w(x, v) = tf(x, v) (ln((1 + N) / (1 + df(v))) + 1),   score(x) = max over the text's lines t of cos(w(x), w(t))

`tf` counts a word in a line, `df` the lines that have it, of all N: the weights of scikit-learn's TfidfVectorizer.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import TfidfVectorizer

from deepnmt.text.words import Words

Scores = npt.NDArray[np.float64]
# Lines of the text that are compared at a time: most lines have a word in common, so that all products are kept.
BLOCK = 2_000


class TfIdf:
    """Scores lines by their likeness to the lines of a text.

    Args:
        lines: all that are chosen from, for the weights
        like: the text
    """

    def __init__(self, lines: Iterable[Words], like: Sequence[Words]) -> None:
        frequency: Counter[str] = Counter()
        total = 0
        for line in lines:
            frequency.update(set(line))
            total += 1
        counts = np.fromiter(frequency.values(), np.float64, len(frequency))
        # Fitted here, since its own way keeps all lines in memory. It refuses to know no word at all.
        self._vectorizer = TfidfVectorizer(analyzer=list, vocabulary=list(frequency) or [""])
        self._vectorizer.idf_ = np.log((1 + total) / (1 + counts)) + 1 if frequency else np.ones(1)
        self._like = [
            self._vectorizer.transform(like[start : start + BLOCK]).T.tocsr() for start in range(0, len(like), BLOCK)
        ]

    def __call__(self, lines: Sequence[Words]) -> Scores:
        """Return the scores of lines, from 0 to 1."""
        if not lines:
            return np.zeros(0)
        vectors, best = self._vectorizer.transform(lines), np.zeros(len(lines))
        for block in self._like:
            best = np.maximum(best, (vectors @ block).max(axis=1).toarray().ravel())
        return best
