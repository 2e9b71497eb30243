"""The translations of a search in the order of a weighted sum of features, with weights that deepnmt rerank has tuned.

model    log P of the translation, the end symbol included, by the rule of the search that has found it
length   its subwords and the end symbol
unk      its unknown words
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from deepnmt.engines.engine import Engine, Hypothesis, SearchSettings

UNKNOWN = "<unk>"


def search(engine: Engine, sentences: Sequence[Sequence[str]], settings: SearchSettings) -> list[list[Hypothesis]]:
    """Return the best hypotheses of each sentence, as `Engine.search`, by the weights of the settings if there are any.

    All hypotheses of the beam are rated; scores are the weighted sums.
    """
    weights = settings.rerank_weights()
    if not weights:
        return engine.search(sentences, settings)
    found = engine.search(sentences, dataclasses.replace(settings, nbest=settings.beam))
    unknown = [
        (source, each.tokens)
        for source, hypotheses in zip(sentences, found)
        for each in hypotheses
        if each.log_prob is None
    ]
    scored = iter(engine.score(*zip(*unknown)) if unknown else [])
    result = []
    for each in found:
        rated = []
        for hypothesis in each:
            features = {
                "model": sum(next(scored)) if hypothesis.log_prob is None else hypothesis.log_prob,
                "length": len(hypothesis.tokens) + 1,
                "unk": hypothesis.tokens.count(UNKNOWN),
            }
            rated.append(Hypothesis(hypothesis.tokens, sum(weights[name] * features[name] for name in weights)))
        # Equal ones stay in the search's order.
        rated.sort(key=lambda hypothesis: -hypothesis.score)
        result.append(rated[: settings.nbest])
    return result
