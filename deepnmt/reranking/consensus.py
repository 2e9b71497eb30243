"""Consensus, or minimum Bayes risk: the translation that is most like all the others (Kumar and Byrne 2004, N04-1022).

argmax_y sum_y' P(y') sim(y, y')
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deepnmt.reranking.bleu_statistics import Array
from deepnmt.reranking.similarity import METRICS


def expected_similarity(texts: Sequence[str], probabilities: Sequence[float], metric: str) -> Array:
    """Return the expected similarity of each translation of a sentence with the right one.

    Args:
        texts: translations
        probabilities: of each
        metric: chrf or bleu
    """
    found: Array = METRICS[metric](texts) @ np.array(probabilities)
    return found
