"""The exhaustive search against all strings that there are."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from support.models import batch, build, logits
from support.toy_search import EOS, WORDS, String, Toy

from deepnmt.search.exact import best_string, sentence_predictor, string_log_prob

PAD, LONGEST = 1, 3
STRINGS = [string for length in range(LONGEST + 1) for string in itertools.product(WORDS, repeat=length)]


def log_prob(toy: Toy, string: String) -> float:
    return sum(float(toy.log_probs(string[:place])[token]) for place, token in enumerate([*string, EOS]))


@pytest.mark.parametrize("seed", range(12))
def test_best_of_all_strings(seed: int) -> None:
    toy = Toy(seed * 1000, LONGEST)
    calls: list[int] = []

    def predict(prefixes: list[String]) -> torch.Tensor:
        calls.append(len(prefixes))
        return torch.stack([toy.log_probs(prefix) for prefix in prefixes])

    scores = {string: log_prob(toy, string) for string in STRINGS}
    best = max(scores, key=lambda string: scores[string])
    ranked = sorted(scores, key=lambda string: -scores[string])
    for start in (ranked[-1], ranked[5], best):
        calls.clear()
        assert string_log_prob(predict, start, EOS) == pytest.approx(scores[start], abs=1e-5)
        calls.clear()
        found = best_string(predict, start, scores[start], EOS, PAD, LONGEST, math.inf)
        assert (found.string, found.complete) == (best, True)
        assert found.log_prob == pytest.approx(scores[best], abs=1e-5)
        assert found.expanded == sum(calls)
    # Of a prefix that is worse than the best string, nothing is looked at.
    prefixes = {string[:length] for string in STRINGS for length in range(LONGEST + 1)}
    sums = (sum(float(toy.log_probs(p[:place])[token]) for place, token in enumerate(p)) for p in prefixes)
    assert found.expanded == sum(total > scores[best] + 1e-4 for total in sums)


def test_length_is_bounded_and_padding_never_comes() -> None:
    """A model that ends nothing gladly, and whose best type is padding."""

    def predict(prefixes: list[String]) -> torch.Tensor:
        row = torch.full((12,), -math.inf)
        row[[PAD, EOS, 5, 6]] = torch.tensor([0.6, 0.01, 0.3, 0.09]).log()
        ends = torch.tensor([0.0, 0.9, 0.05, 0.05]).log()
        other = row.clone()
        other[[PAD, EOS, 5, 6]] = ends
        return torch.stack([other if len(prefix) == 4 else row for prefix in prefixes])

    found = best_string(predict, (), math.log(0.001), EOS, PAD, 4, math.inf)
    assert found.string == ()
    assert found.log_prob == pytest.approx(math.log(0.01), abs=1e-5)
    longer = best_string(predict, (6,), math.log(0.0009), EOS, PAD, 0, math.inf)
    assert (longer.string, longer.expanded) == ((), 1)


def test_out_of_time() -> None:
    toy = Toy(3, LONGEST)
    start = (4, 4, 4)

    def predict(prefixes: object) -> torch.Tensor:
        pytest.fail("there is no time")

    found = best_string(predict, start, log_prob(toy, start), EOS, PAD, LONGEST, 0.0)
    assert (found.string, found.complete, found.expanded) == (start, False, 0)


def test_predictions_are_the_models() -> None:
    models = [build(seed=1), build(seed=2, decoder_layers=2)]
    prefixes = [(), (5, 6, 7), (9,), (5, 6)]
    inputs = batch([[8, 9, 10]] * 4, [list(prefix) for prefix in prefixes])
    each = [
        torch.stack([row[len(prefix)] for row, prefix in zip(logits(model, inputs), prefixes)]).log_softmax(-1)
        for model in models
    ]
    source = torch.tensor([8, 9, 10, 2])
    with torch.no_grad():
        one = sentence_predictor(models[:1], source, EOS, PAD)(prefixes)
        both = sentence_predictor(models, source, EOS, PAD)(prefixes)
    # fairseq's logarithms are of single precision.
    assert torch.allclose(one.double(), each[0], atol=1e-5)
    assert torch.allclose(both.double(), ((each[0].exp() + each[1].exp()) / 2).log(), atol=1e-5)
