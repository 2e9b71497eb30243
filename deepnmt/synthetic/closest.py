"""Choose among a teacher's translations (sequence-level interpolation: Kim and Rush 2016, arXiv 1606.07947, 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deepnmt.text.token_bleu import TokenBleu


def closest(candidates: Sequence[str], reference: str, language: str) -> str:
    """Return the candidate that is most like the reference, the first of those that are equally like it.

        argmax over the n-best of sim(y, reference)                                                              (31)

    Args:
        candidates: translations in tokens, best first; at least one
        reference: in tokens
        language: of both
    """
    return max(candidates, key=lambda candidate: similarity(candidate, reference, language))


def similarity(candidate: str, reference: str, language: str) -> float:
    """Return BLEU+1 of one sentence, 0 to 100: all counts but those of single words have 1 added (Lin and Och 2004)."""
    return _metric(language).sentence_score(candidate, [reference]).score


@lru_cache(maxsize=8)
def _metric(language: str) -> TokenBleu:
    from deepnmt.text.token_bleu import TokenBleu  # here, since it imports sacrebleu

    return TokenBleu(language, smooth_method="add-k", smooth_value=1, effective_order=True)
