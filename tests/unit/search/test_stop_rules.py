"""When sentences are done, what is pruned, and coverage in the beam: against a search that is written for reading."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Optional

import pytest
import torch
from support.toy_search import Found, Toy, reference, search
from torch import Tensor

from deepnmt.search.coverage import Coverage, FloorCoverage, GnmtCoverage
from deepnmt.search.scores import GnmtPenalty, HypothesisScore, LengthPenalty, LogPenalty, NoLengthPenalty, PowerPenalty
from deepnmt.search.stop_rules import BeamFinished, BestEnds, NothingBetter, PruneGap, StopRule

TOYS = [Toy(seed, 3 + seed % 4) for seed in range(40)]
PENALTIES: dict[str, tuple[LengthPenalty, Callable[[int], float]]] = {
    "power": (PowerPenalty(1.0), lambda n: n),
    "gnmt": (GnmtPenalty(0.7), lambda n: ((5 + n) / 6) ** 0.7),
    "log": (LogPenalty(1.2), lambda n: 1.2 * math.log(n)),
    "none": (NoLengthPenalty(), lambda n: 1),
}


def plain(lp: Callable[[int], float]) -> Callable[[float, int, list[float]], float]:
    return lambda total, n, received: total / lp(n) if lp(n) else -math.inf


def gnmt(total: float, n: int, received: list[float]) -> float:
    return total / n + 0.5 * sum(math.log(min(c, 1)) for c in received)


def floor(total: float, n: int, received: list[float]) -> float:
    return total / n + 0.5 * sum(math.log(max(c, 0.3)) for c in received)


def optimal(penalty: LengthPenalty) -> Callable[[Tensor], StopRule]:
    return lambda longest: NothingBetter(torch.tensor([penalty(n + 1) for n in longest.tolist()]))


def assert_same(own: list[Found], expected: list[Found]) -> None:
    assert [[string for string, _ in found] for found in own] == [[string for string, _ in found] for found in expected]
    for found, other in zip(own, expected):
        assert [score for _, score in found] == pytest.approx([score for _, score in other], abs=1e-5)


def in_steps(counts: list[int]) -> list[int]:
    """How many sentences take part in each step."""
    return [sum(count > step for count in counts) for step in range(max(counts))]


@pytest.mark.parametrize("beam", [1, 2, 4])
@pytest.mark.parametrize("stop", ["all", "first"])
def test_rules_of_fairseq_and_of_the_best_candidate(stop: str, beam: int) -> None:
    rule = BeamFinished(beam) if stop == "all" else BestEnds()
    own, rows = search(TOYS, beam, HypothesisScore(PowerPenalty(1.0)), lambda longest: rule)
    expected = [reference(toy, beam, plain(lambda n: n), stop) for toy in TOYS]
    assert_same(own, [found for found, _ in expected])
    assert rows == in_steps([steps for _, steps in expected])


@pytest.mark.parametrize("seeds", [range(start, start + 50) for start in range(0, 200, 50)])
@pytest.mark.parametrize("name", PENALTIES)
def test_optimal_finds_the_best_of_the_whole_search(name: str, seeds: range) -> None:
    """Of 200 random tables, though it may stop earlier than fairseq's rule, or later."""
    penalty, lp = PENALTIES[name]
    toys = [Toy(1000 + seed, 3 + seed % 4) for seed in seeds]
    own, rows = search(toys, 3, HypothesisScore(penalty), optimal(penalty))
    whole = [reference(toy, 3, plain(lp), "never") for toy in toys]
    assert_same([found[:1] for found in own], [found[:1] for found, _ in whole])
    assert sum(rows) < sum(steps for _, steps in whole)


@pytest.mark.parametrize("name", ["power", "gnmt", "none"])
def test_optimal_stops_as_early_as_it_can(name: str) -> None:
    penalty, lp = PENALTIES[name]
    own, rows = search(TOYS, 3, HypothesisScore(penalty), optimal(penalty))
    expected = [
        reference(toy, 3, plain(lp), "optimal", bound=lambda total, toy=toy: total / lp(toy.longest + 1))
        for toy in TOYS
    ]
    assert_same(own, [found for found, _ in expected])
    assert rows == in_steps([steps for _, steps in expected])


def test_optimal_finds_better_ones_than_fairseqs_rule() -> None:
    toys, penalty = [Toy(seed, 9) for seed in range(20)], PowerPenalty(2.0)
    fairseq, _ = search(toys, 2, HypothesisScore(penalty), lambda longest: BeamFinished(2))
    own, _ = search(toys, 2, HypothesisScore(penalty), optimal(penalty))
    gains = [found[0][1] - other[0][1] for found, other in zip(own, fairseq)]
    assert min(gains) >= 0
    assert sum(gain > 0 for gain in gains) > 5


@pytest.mark.parametrize("stop", ["all", "never"])
@pytest.mark.parametrize("gap", [0.0, 0.2, 0.6])
def test_pruning(gap: float, stop: str) -> None:
    inner: StopRule = BeamFinished(3) if stop == "all" else Never()
    own, rows = search(TOYS, 3, HypothesisScore(PowerPenalty(1.0)), lambda longest: PruneGap(gap, inner))
    expected = [reference(toy, 3, plain(lambda n: n), stop, gap) for toy in TOYS]
    assert_same(own, [found for found, _ in expected])
    assert rows == in_steps([steps for _, steps in expected])


class Never:
    at_most = None

    def __call__(self, hypotheses: Any, candidates: Any, ending: Tensor) -> Optional[Tensor]:
        return None


def test_no_gap_is_wide_enough_to_change_anything() -> None:
    score, inner = HypothesisScore(PowerPenalty(1.0)), BeamFinished(3)
    assert search(TOYS, 3, score, lambda longest: PruneGap(math.inf, inner)) == search(TOYS, 3, score, lambda _: inner)


@pytest.mark.parametrize(("own_penalty", "formula"), [(GnmtCoverage(0.5), gnmt), (FloorCoverage(0.5, 0.3), floor)])
@pytest.mark.parametrize("in_beam", [False, True])
@pytest.mark.parametrize("gap", [math.inf, 1.0])
def test_coverage(own_penalty: Any, formula: Any, in_beam: bool, gap: float) -> None:
    score, stop = HypothesisScore(PowerPenalty(1.0), own_penalty), PruneGap(gap, BeamFinished(3))
    own, _ = search(TOYS, 3, score, lambda longest: stop, in_beam)
    expected = [reference(toy, 3, formula, gap=gap, in_beam=formula if in_beam else None)[0] for toy in TOYS]
    assert_same(own, expected)


def test_coverage_in_the_beam_finds_others() -> None:
    score = HypothesisScore(PowerPenalty(1.0), FloorCoverage(0.5, 0.3))
    found = [search(TOYS, 3, score, lambda longest: BeamFinished(3), in_beam)[0] for in_beam in (False, True)]
    assert found[0] != found[1]


def test_what_coverage_counts() -> None:
    """Three words: one is left out, one is covered twice; padding and the end symbol do not count."""
    words = torch.tensor([[False, True, True, True, False]])
    coverage = Coverage(words, in_beam=False)
    sentence = torch.tensor([0])
    coverage.add(torch.tensor([[[0.0, 1.0, 0.0, 0.0, 0.0]]]), sentence, None)
    coverage.add(
        torch.tensor([[[0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.5, 0.0, 0.5]]]), sentence, torch.tensor([[0, 0]])
    )
    coverage.add(torch.tensor([[[0.0] * 5, [0.0, 0.0, 0.0, 0.0, 1.0]]]), sentence, torch.tensor([[1, 0]]))
    assert coverage.received is not None
    assert coverage.received[0, :, 1:4].tolist() == [[1.0, 0.5, 0.0], [2.0, 0.0, 0.0]]
    least = math.log(1e-6)
    assert GnmtCoverage(0.2)(coverage.received)[0].tolist() == pytest.approx(
        [0.2 * (math.log(0.5) + least), 0.4 * least], rel=1e-5
    )
    assert FloorCoverage(2.0, 0.1)(coverage.received)[0].tolist() == pytest.approx(
        [2 * (math.log(0.5) + math.log(0.1)), 2 * (math.log(2) + 2 * math.log(0.1))], rel=1e-5
    )
