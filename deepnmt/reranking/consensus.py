"""Consensus, or minimum Bayes risk: the translation that is most like all the others (Kumar and Byrne 2004, N04-1022).

argmax_y sum_y' P(y') sim(y, y')
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deepnmt.reranking.bleu_statistics import Array
from deepnmt.reranking.similarity import bleu, chrf


def expected_similarity(
    texts: Sequence[str], probabilities: Sequence[float], metric: str, tokenize: str = "13a"
) -> Array:
    """Return the expected similarity of each translation of a sentence with the right one.

    Args:
        texts: translations
        probabilities: of each
        metric: chrf or bleu
        tokenize: of bleu, sacrebleu's name
    """
    similarities = chrf(texts) if metric == "chrf" else bleu(texts, tokenize)
    found: Array = similarities @ np.array(probabilities)
    return found
