"""Features per token: log probabilities that do not favour short translations.

    1/t log P(y | x) + 1/s (w_1 log P(x | y) + w_2 log P(y))                                                  (43)

by t tokens of y and s of x, end symbols included (Yee 2019, arXiv 1908.05731). With sums, what is left out costs
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from deepnmt.reranking.merged_lists import Candidate


def per_token(
    lists: Sequence[Sequence[Candidate]],
    sources: Sequence[str],
    of_translation: Collection[str],
    of_source: Collection[str],
) -> list[list[Mapping[str, float]]]:
    """Return the features of all candidates, some of them divided by a number of tokens; the candidates keep theirs.

    Args:
        lists: candidates of each sentence
        sources: subwords of each sentence's source
        of_translation: features to divide by t, the tokens of the candidate
        of_source: features to divide by s, those of its source
    """
    result: list[list[Mapping[str, float]]] = []
    for source, candidates in zip(sources, lists):
        found: list[Mapping[str, float]] = []
        for candidate in candidates:
            tokens = dict.fromkeys(of_translation, len(candidate.subwords.split()) + 1)
            tokens |= dict.fromkeys(of_source, len(source.split()) + 1)
            found.append({name: value / tokens.get(name, 1) for name, value in candidate.features.items()})
        result.append(found)
    return result
