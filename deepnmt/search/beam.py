"""The loop of the beam search: predict, apply the rules, choose or draw candidates, extend the hypotheses.

Shapes: N sentences of M hypotheses (1 in the first step, then the beam K); V types.
"""

from collections.abc import Sequence
from typing import Optional

from deepnmt.search.candidates import best_candidates, drawn_candidates, ranked_candidates
from deepnmt.search.constraints import StepRule
from deepnmt.search.ensemble import EnsembleSteps
from deepnmt.search.hypotheses import Hypotheses
from deepnmt.search.incremental.listed_output import ListedOutput
from deepnmt.search.stop_rules import StopRule


def beam_search(
    models: EnsembleSteps,
    hypotheses: Hypotheses,
    rules: Sequence[StepRule],
    stop: StopRule,
    types: int,
    listed: Optional[ListedOutput] = None,
    draws: bool = False,
) -> bool:
    """Extend hypotheses, which have their first token, until all sentences are finished.

    With shortlists, `listed` knows the types of the V columns. If it `draws`, the hypotheses are samples of the models.
    Return False if a log-probability is not a number.
    """
    while hypotheses.count:
        step = hypotheses.step()
        log_probs, attention, covering = models(hypotheses.last_tokens(), step)
        hypotheses.record(attention, covering)
        for rule in rules:
            rule(log_probs, hypotheses)
        # There is one candidate less than continuations, since padding is never chosen.
        number = min(2 * hypotheses.beam, step.hypotheses * types - 1)
        sums, bonus, shape = hypotheses.last_sums(), hypotheses.bonus(), (hypotheses.count, types, number)
        if draws:
            if bool(log_probs.isnan().any()):
                return False
            candidates = drawn_candidates(log_probs, sums, hypotheses.count, hypotheses.beam)
        elif bonus is None:
            candidates = best_candidates(log_probs, sums, *shape)
        else:
            candidates = ranked_candidates(log_probs, sums, bonus, *shape)
        if bool(candidates.sums.isnan().any()):
            return False
        if listed is not None:
            candidates = candidates._replace(tokens=listed.types_of(candidates.tokens))
        ending = hypotheses.finish(candidates, stop.at_most)
        moves = hypotheses.extend(candidates, ending, stop(hypotheses, candidates, ending))
        if moves is not None and hypotheses.count:
            models.keep(hypotheses.count, *moves)
    return True
