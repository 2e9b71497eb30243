"""Smoothed BLEU of single sentences, as sacrebleu's `sentence_bleu` has it, for many translations of one reference.

    BLEU = exp(min(0, 1 - r / h)) (prod_{n=1..N} p_n)^(1/N)

h and r are the lengths of translation and reference; p_n is the precision of n-grams; N is 4, or h in shorter
translations. The k-th order without a match counts 2^-k of a match (exponential smoothing).
"""

import math
from collections import Counter
from collections.abc import Sequence

ORDERS = 4


class SentenceBleu:
    """Scores translations of one sentence by the words of its reference."""

    def __init__(self, reference: Sequence[str]) -> None:
        self.length = len(reference)
        self.counts = [_ngrams(reference, order) for order in range(1, ORDERS + 1)]

    def __call__(self, translation: Sequence[str]) -> float:
        """Return BLEU, from 0 to 1, of the words of a translation; 0 where none of them is in the reference."""
        length, missing, total = len(translation), 0, 0.0
        orders = min(ORDERS, length)
        for order in range(1, orders + 1):
            counts = self.counts[order - 1]
            matches: float = sum(
                min(number, counts[ngram]) for ngram, number in _ngrams(translation, order).items() if ngram in counts
            )
            if not matches:
                if order == 1:
                    return 0.0
                missing += 1
                matches = 0.5**missing
            total += math.log(matches / (length - order + 1))
        return math.exp(total / orders + min(0.0, 1 - self.length / length)) if orders else 0.0


def _ngrams(words: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[start:] for start in range(order))))
