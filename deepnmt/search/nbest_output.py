"""The hypotheses of a search as lines of an n-best list (`deepnmt.text.nbest`).

Shapes: S source positions of the batch; P target positions.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from fairseq.data import Dictionary
from torch import Tensor

from deepnmt.search.coverage import GnmtCoverage
from deepnmt.text.nbest import COVERAGE, LENGTH, MODEL, UNKNOWN, Translation


def translations(
    sample: dict[str, Any],
    hypotheses: Sequence[Sequence[dict[str, Any]]],
    dictionary: Dictionary,
    nbest: int,
    target_axis: int = 1,
) -> Iterator[Translation]:
    """Give the best hypotheses of a batch as lines.

    Args:
        sample: fairseq's batch
        hypotheses: of each sentence, the best first
        dictionary: of the target
        nbest: number of hypotheses per sentence
        target_axis: of the attention: 1 of a search (S x P), 0 where references are scored (P x S)
    """
    source = sample["net_input"].get("src_tokens")
    for row, (sentence, found) in enumerate(zip(sample["id"].tolist(), hypotheses)):
        words = None
        if source is not None:
            words = source[row].ne(dictionary.pad()) & source[row].ne(dictionary.eos())
        # Tiny vocabularies have fewer translations than the beam; the remaining places hold impossible ones.
        possible = [each for each in found[:nbest] if math.isfinite(float(each["score"]))]
        for rank, hypothesis in enumerate(possible, start=1):
            values = features(hypothesis, words, dictionary, target_axis)
            yield Translation(sentence, rank, dictionary.string(hypothesis["tokens"]), values)


def features(
    hypothesis: dict[str, Any], words: Optional[Tensor], dictionary: Dictionary, target_axis: int = 1
) -> dict[str, float]:
    """Return the features of a fairseq hypothesis; no coverage without attention, or if the source is not text.

    `words` says where the source has words, S; see `translations`.
    """
    tokens = hypothesis["tokens"]
    result = {MODEL: float(hypothesis["positional_scores"].double().sum()), LENGTH: float(tokens.numel())}
    attention = hypothesis.get("attention")
    if attention is not None and attention.numel() and words is not None:
        # When references are scored, it is as long as the batch's longest.
        attention = attention.narrow(target_axis, 0, tokens.numel())
        result[COVERAGE] = float(GnmtCoverage(1.0)(attention.float().sum(target_axis)[words.to(attention.device)]))
    result[UNKNOWN] = float(tokens.eq(dictionary.unk()).sum())
    return result
