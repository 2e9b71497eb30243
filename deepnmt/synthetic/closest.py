"""Choose among a teacher's translations (sequence-level interpolation: Kim and Rush 2016, arXiv 1606.07947, 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU


def closest(candidates: Sequence[str], reference: str) -> str:
    """Return the candidate that is most like the reference, the first of those that are equally like it.

        argmax over the n-best of sim(y, reference)                                                              (31)

    Args:
        candidates: translations in tokens, best first; at least one
        reference: in tokens
    """
    return max(candidates, key=lambda candidate: similarity(candidate, reference))


def similarity(candidate: str, reference: str) -> float:
    """Return BLEU+1 of one sentence, 0 to 100: all counts but those of single words have 1 added (Lin and Och 2004)."""
    return _metric().sentence_score(candidate, [reference]).score


@cache
def _metric() -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="none", smooth_method="add-k", smooth_value=1, effective_order=True, force=True)
