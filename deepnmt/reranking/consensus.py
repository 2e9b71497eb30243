"""Consensus, or minimum Bayes risk: the translation that is most like all the others (Kumar and Byrne 2004, N04-1022).

argmax_y sum_y' P(y') sim(y, y')
"""

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from deepnmt.reranking.bleu_statistics import Array

CHRF_ORDERS, CHRF_BETA = 6, 2.0
BLEU_ORDERS = 4


def expected_similarity(
    texts: Sequence[str], probabilities: Sequence[float], metric: str, tokenize: str = "13a"
) -> Array:
    """Return the expected similarity, by chrf or bleu, of each translation of a sentence with the right one.

    `tokenize` is sacrebleu's name of a tokenisation, for bleu.
    """
    similarities = chrf(texts) if metric == "chrf" else bleu(texts, tokenize)
    found: Array = similarities @ np.array(probabilities)
    return found


def chrf(texts: Sequence[str]) -> Array:
    """Return chrF of each text (row) with each as the reference (column), K x K, from 0 to 100."""
    letters = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for order in range(1, CHRF_ORDERS + 1):
        shared, sizes = _shared(letters, order)
        hypothesis, reference = sizes[:, None], sizes[None, :]
        counts = (hypothesis > 0) & (reference > 0)
        precision += np.where(counts, shared / np.maximum(hypothesis, 1), 0)
        recall += np.where(counts, shared / np.maximum(reference, 1), 0)
        orders += counts
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    factor = CHRF_BETA**2
    below = factor * precision + recall
    return np.where(below > 0, 100 * (1 + factor) * precision * recall / np.where(below > 0, below, 1), 0.0)


def bleu(texts: Sequence[str], tokenize: str) -> Array:
    """Return the smoothed BLEU of each text (row) with each as the reference (column), K x K, from 0 to 100."""
    cut = BLEU(tokenize=tokenize).tokenizer
    tokens = [cut(text.rstrip()).split() for text in texts]
    lengths = np.array([len(each) for each in tokens], dtype=np.float64)
    logs = np.zeros((len(texts), len(texts)))
    smooth = np.ones_like(logs)
    used = np.zeros_like(logs)
    matched = np.zeros_like(logs)
    for order in range(1, BLEU_ORDERS + 1):
        shared, sizes = _shared(tokens, order)
        there = np.broadcast_to(sizes[:, None] > 0, logs.shape)
        smooth = np.where(there & (shared == 0), smooth * 2, smooth)
        precision = np.where(shared > 0, shared, 1 / smooth) / np.maximum(sizes, 1)[:, None]
        logs += np.where(there, np.log(precision), 0)
        used += there
        matched += shared
    hypothesis, reference = lengths[:, None], lengths[None, :]
    brevity = np.where(hypothesis < reference, 1 - reference / np.maximum(hypothesis, 1), 0)
    return np.where(matched > 0, 100 * np.exp(logs / np.maximum(used, 1) + brevity), 0)


def _shared(texts: Sequence[Sequence[str]], order: int) -> tuple[Array, Array]:
    """Return the number of n-grams that each two texts share, K x K, and how many each text has, K."""
    numbers: dict[object, int] = {}
    rows, columns = [], []
    for row, text in enumerate(texts):
        for start in range(len(text) - order + 1):
            rows.append(row)
            columns.append(numbers.setdefault(_key(text[start : start + order]), len(numbers)))
    counts = np.zeros((len(texts), max(1, len(numbers))), dtype=np.int32)
    np.add.at(counts, (np.array(rows, dtype=np.intp), np.array(columns, dtype=np.intp)), 1)
    shared = np.stack([np.minimum(count, counts).sum(axis=1) for count in counts])
    return shared.astype(np.float64), counts.sum(axis=1).astype(np.float64)


def _key(part: Sequence[str]) -> object:
    return part if isinstance(part, str) else tuple(part)
