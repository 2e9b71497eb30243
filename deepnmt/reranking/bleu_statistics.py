"""Corpus BLEU from the statistics of single sentences, for many corpora at a time.

Statistics: matches of 1- to 4-grams, numbers of 1- to 4-grams, lengths of translation and reference.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU

ORDERS = 4
STATISTICS = 2 * ORDERS + 2
Array = NDArray[np.float64]
Choice = NDArray[np.intp]  # the place of each sentence's translation, N
PASSES = 20


class BleuStatistics:
    """Counts the statistics of a translation, by sacrebleu's name of a tokenisation, and with lower case or not.

    With the tokenisation `none`, translations and references are tokens with spaces between them, and case counts.
    """

    def __init__(self, tokenize: str, lowercase: bool) -> None:
        # Where a sentence has no 4-grams, sacrebleu warns unless it is told to leave them out of the score.
        tokens = tokenize == "none"
        self._metric = BLEU(lowercase and not tokens, force=tokens, tokenize=tokenize, effective_order=True)

    def __call__(self, translation: str, reference: str) -> Array:
        """Return the statistics of a sentence."""
        found = self._metric.sentence_score(translation, [reference])
        return np.array([*found.counts, *found.totals, found.sys_len, found.ref_len], dtype=np.float64)


def corpus_bleu(statistics: Array) -> Array:
    """Return BLEU from 0 to 100, ..., as sacrebleu has it by default, with its exponential smoothing.

    The statistics, ... x 10, are sums over the sentences of each corpus.
    """
    matches, totals = statistics[..., :ORDERS], statistics[..., ORDERS : 2 * ORDERS]
    length, reference = statistics[..., -2], statistics[..., -1]
    # Each order without matches counts half as much as the one before: 1/2, 1/4, ... of a match.
    missing = (matches == 0) & (totals > 0)
    smoothed = np.where(missing, 0.5 ** np.cumsum(missing, axis=-1), matches)
    possible = (totals > 0).all(axis=-1) & (matches[..., 0] > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.log(np.where(totals > 0, smoothed / np.where(totals > 0, totals, 1), 1)).mean(axis=-1)
        brevity = np.where(length < reference, 1 - reference / np.where(length > 0, length, 1), 0.0)
    return np.where(possible, 100 * np.exp(precision + brevity), 0.0)


def table(texts: Sequence[Sequence[str]], references: Sequence[str], statistics: BleuStatistics) -> Array:
    """Return the statistics of lists of at most K translations, and of a reference each, N x K x 10.

    A sentence without translations has the statistics of an empty one in its first place; other places that are
    empty have zeros.
    """
    longest = max(1, max(map(len, texts), default=1))
    result = np.zeros((len(texts), longest, STATISTICS))
    for row, (found, reference) in enumerate(zip(texts, references)):
        counted: dict[str, Array] = {}
        for column, text in enumerate(found or [""]):
            if text not in counted:
                counted[text] = statistics(text, reference)
            result[row, column] = counted[text]
    return result


def oracle(statistics: Array, counts: Choice) -> Choice:
    """Return a choice, N, that no change in a single sentence improves: the greatest possible gain of reranking.

    BLEU is not a sum over sentences, so the best choice cannot be found sentence by sentence. Each sentence begins with
    its best smoothed BLEU. In turn, each then takes the best translation given the present choice of all others.

    Args:
        statistics: of the translations, N x K x S
        counts: number of translations of each sentence, N; the first place counts for an empty list
    """
    places = np.arange(statistics.shape[1])
    allowed = places[None] < np.maximum(counts, 1)[:, None]
    # A match and a 1-gram more in each order, so that short sentences differ, too.
    single = corpus_bleu(statistics + np.array([1.0] * 8 + [0.0] * 2))
    choice: Choice = np.where(allowed, single, -1).argmax(axis=1)
    rows = np.arange(len(statistics))
    total = statistics[rows, choice].sum(axis=0)
    for _ in range(PASSES):
        changed = False
        for row in rows:
            others = total - statistics[row, choice[row]]
            reached = np.where(allowed[row], corpus_bleu(others + statistics[row]), -1)
            best = int(reached.argmax())
            if reached[best] > reached[choice[row]] + 1e-9:
                total, choice[row], changed = others + statistics[row, best], best, True
        if not changed:
            break
    return choice
