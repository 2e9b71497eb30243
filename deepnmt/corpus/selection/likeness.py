"""Similarity of lines to a text, by one of two scores, and the lines with the highest scores.

    score(x) = max_t cos(x, t)           of the lines t of the text, words weighted by tf-idf
    score(x) = H_all(x) - H_in(x)        by two language models (Moore and Lewis 2010, P10-2041)

H is in nats per word: `in` is the model of the text, `all` the model of as many lines of all candidates. Both know the
words that the text has at least twice, whether the sample has them or not. Otherwise one model would explain rare words
better for no reason.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import TfidfVectorizer

from deepnmt.corpus.ngram.kneser_ney import estimate
from deepnmt.text.in_order import blocks, in_order
from deepnmt.text.words import Words, counted_words

# Lines that a process scores at a time, and lines of the text that these are compared with at a time: most lines have
# a word in common, so that all products are kept.
BLOCK = 2_000
ORDER = 3
Scores = npt.NDArray[np.float64]
Scorer = Callable[[Sequence[Words]], Scores]


def score_all(
    scorer: Scorer, lines: Iterable[str], language: str, workers: int, show: Callable[[int], object] = lambda _: None
) -> Scores:
    """Return the scores of all lines in tokens; `show` is told how many lines more are scored."""
    scores = []
    for some in in_order(partial(_worker, scorer, language), blocks(lines, BLOCK), workers):
        scores.append(some)
        show(len(some))
    return np.concatenate(scores) if scores else np.zeros(0)


def best(scores: Scores, number: int) -> npt.NDArray[np.int64]:
    """Return the places of the highest scores in rising order; of equal ones, the first."""
    order = np.argsort(-scores, kind="stable")[:number]
    return np.sort(order)


def _worker(scorer: Scorer, language: str) -> Callable[[list[str]], Scores]:
    def score(lines: list[str]) -> Scores:
        return scorer([counted_words(line, language, tokens=True) for line in lines])

    return score


class TfIdf:
    """Scores lines by their likeness to the lines of a text; weights come from all lines that are chosen from."""

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


class CrossEntropyDifference:
    """Scores lines by their likeness to a text, against a sample of as many of all lines that are chosen from."""

    def __init__(self, sample: Iterable[Words], like: Sequence[Words]) -> None:
        counts = Counter(word for line in like for word in line)
        known = {word for word, count in counts.items() if count > 1}
        self._inside = estimate(like, ORDER, known)
        self._all = estimate(sample, ORDER, known)

    def __call__(self, lines: Sequence[Words]) -> Scores:
        """Return the scores of lines."""
        return self._all.cross_entropies(lines) - self._inside.cross_entropies(lines)
