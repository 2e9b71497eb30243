"""The candidates of a step are the best of all continuations."""

from __future__ import annotations

import pytest
import torch

from deepnmt.search.candidates import best_candidates, drawn_candidates, whole_blocks


@pytest.mark.parametrize("types", [9, 64, 65, 130, 320, 1000])
@pytest.mark.parametrize("number", [1, 4, 10])
@pytest.mark.parametrize("first", [False, True])
def test_best_candidates(types: int, number: int, first: bool) -> None:
    """Against sorting all of them."""
    torch.manual_seed(types)
    sentences, hypotheses = 3, 1 if first else 5
    log_probs = torch.randn(sentences * hypotheses, types).log_softmax(-1)
    log_probs[:, 1] = -float("inf")
    log_probs[1, 3:7] = log_probs[1, 8]  # equals
    scores = None if first else torch.randn(sentences, hypotheses)
    columns = torch.nn.functional.pad(log_probs, (0, whole_blocks(types) - types), value=-float("inf"))
    sums, tokens, places = best_candidates(columns, scores, sentences, types, min(number, types - 1))
    for sentence in range(sentences):
        every = [
            (float(log_probs[sentence * hypotheses + h, v] + (0 if scores is None else scores[sentence, h])), v, h)
            for h in range(hypotheses)
            for v in range(types)
        ]
        best = sorted((total for total, _, _ in every), reverse=True)[: sums.size(1)]
        assert sums[sentence].tolist() == pytest.approx(best, abs=1e-6)
        found = list(zip(tokens[sentence].tolist(), places[sentence].tolist()))
        assert len(set(found)) == len(found)
        total = {(v, h): value for value, v, h in every}
        assert [total[pair] for pair in found] == pytest.approx(sums[sentence].tolist(), abs=1e-6)


@pytest.mark.parametrize("first", [False, True])
def test_drawn_candidates(first: bool) -> None:
    torch.manual_seed(2)
    sentences, number, types = 2, 4000, 5
    rows = torch.randn(sentences, types).log_softmax(-1)
    rows[:, 1] = -float("inf")
    log_probs = rows if first else rows.repeat_interleave(number, 0)
    scores = None if first else torch.randn(sentences, number)
    columns = torch.nn.functional.pad(log_probs, (0, whole_blocks(types) - types), value=-float("inf"))
    sums, tokens, places = drawn_candidates(columns, scores, sentences, number)
    for sentence, row in enumerate(rows):
        counts = torch.bincount(tokens[sentence], minlength=types)
        assert len(counts) == types
        assert (counts / number).tolist() == pytest.approx(row.softmax(0).tolist(), abs=0.04)
        before = 0 if scores is None else scores[sentence]
        torch.testing.assert_close(sums[sentence], row[tokens[sentence]] + before)
        assert places[sentence].tolist() == ([0] * number if first else list(range(number)))
