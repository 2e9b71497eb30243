"""How like a text lines are, by the words that they share.

    w(x, v) = tf(x, v) (ln((1 + N) / (1 + df(v))) + 1),   score(x) = max over the text's lines t of cos(w(x), w(t))

`tf` counts a word in a line, `df` the lines that have it, of all N: the weights of scikit-learn's TfidfVectorizer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

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
        self._number = {word: number for number, word in enumerate(frequency)}
        counts = np.fromiter(frequency.values(), np.float64, len(frequency))
        self._idf = np.log((1 + total) / (1 + counts)) + 1
        self._like = [self._vectors(like[start : start + BLOCK]).T.tocsr() for start in range(0, len(like), BLOCK)]

    def __call__(self, lines: Sequence[Words]) -> Scores:
        """Return the scores of lines, from 0 to 1."""
        if not lines:
            return np.zeros(0)
        vectors, best = self._vectors(lines), np.zeros(len(lines))
        for block in self._like:
            best = np.maximum(best, (vectors @ block).max(axis=1).toarray().ravel())
        return best

    def _vectors(self, lines: Sequence[Words]) -> sparse.csr_matrix:
        """Return unit vectors, a row for each line, zero where it has no known word."""
        columns, values, ends = [], [], [0]
        for line in lines:
            for word, count in Counter(line).items():
                if (number := self._number.get(word)) is not None:
                    columns.append(number)
                    values.append(count)
            ends.append(len(columns))
        shape = (len(lines), len(self._number))
        matrix = sparse.csr_matrix((np.array(values, np.float64), np.array(columns, np.int64), ends), shape=shape)
        matrix.data *= self._idf[matrix.indices]
        norms = np.sqrt(matrix.multiply(matrix).sum(axis=1)).A1
        matrix.data /= np.repeat(np.where(norms > 0, norms, 1), np.diff(matrix.indptr))
        return matrix
