"""The best corpus BLEU that any choice from the lists can have: what reranking could gain at most."""

from __future__ import annotations

import numpy as np

from deepnmt.reranking.bleu_statistics import Array, corpus_bleu
from deepnmt.reranking.feature_table import Choice

PASSES = 20


def oracle(statistics: Array, counts: Choice) -> Choice:
    """Return a choice, N, that no change in a single sentence improves.

    BLEU is no sum over sentences, so that the best choice of all cannot be found sentence by sentence. Each sentence
    begins with its best smoothed BLEU, and then takes, one after the other, what is best with all others as they are.

    Args:
        statistics: of the translations, N x K x S
        counts: how many each sentence has, N; the first place counts for an empty list
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
