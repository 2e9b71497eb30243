"""BLEU on validation over the length penalty, for several beams.

A length penalty rates finished translations and steers nothing before, so that the list of all that a beam has found
says what every exponent would have chosen: one search for each beam.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deepnmt.reranking.corpus import Corpus
from deepnmt.reranking.merged_lists import read_lists
from deepnmt.text.nbest import LENGTH, MODEL
from techniques.picture import Curve

EXPONENTS = tuple(round(0.2 * step, 1) for step in range(11))


def over_length_penalty(folder: Path, data: Path) -> Curve:
    """Return BLEU by the exponent a of log P / n^a, for the translations that a search has kept."""
    lists = read_lists([folder], data)
    corpus = Corpus.read(data, lists)
    curve = {}
    for exponent in EXPONENTS:
        scores = [
            [each.features[MODEL] / each.features[LENGTH] ** exponent for each in found] for found in lists.candidates
        ]
        # Of a sentence without translations, the first place stands for the empty one.
        curve[exponent] = corpus.bleu(np.array([int(np.argmax(row)) if row else 0 for row in scores], dtype=np.intp))
    return curve
