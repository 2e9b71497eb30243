"""The loop of the beam search: predict, apply the rules, choose candidates, extend the hypotheses.

Shapes: N sentences of M hypotheses (1 in the first step, then the beam K); V types.
"""

from __future__ import annotations

from collections.abc import Sequence

from deepnmt.search.candidates import best_candidates
from deepnmt.search.constraints import StepRule
from deepnmt.search.ensemble import EnsembleSteps
from deepnmt.search.hypotheses import Hypotheses


def beam_search(models: EnsembleSteps, hypotheses: Hypotheses, rules: Sequence[StepRule], types: int) -> bool:
    """Extend hypotheses until all sentences are done.

    Args:
        models: predict the next token
        hypotheses: of the batch, with their first token
        rules: change the predictions
        types: V

    Returns:
        False where a log-probability is not a number
    """
    while hypotheses.count:
        step = hypotheses.step()
        log_probs, attention = models(hypotheses.last_tokens(), step)
        if attention is not None:
            hypotheses.record_attention(attention)
        for rule in rules:
            rule(log_probs, hypotheses)
        # There is one candidate less than continuations, since padding is never chosen.
        number = min(2 * hypotheses.beam, step.hypotheses * types - 1)
        candidates = best_candidates(log_probs, hypotheses.last_sums(), hypotheses.count, types, number)
        if bool(candidates.sums.isnan().any()):
            return False
        moves = hypotheses.extend(candidates)
        if moves is not None and hypotheses.count:
            models.keep(hypotheses.count, *moves)
    return True
