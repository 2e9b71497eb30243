"""Random tables of probabilities in place of models, and a beam search over them that is written for reading."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import torch
from torch import Tensor

from deepnmt.search.beam import beam_search
from deepnmt.search.candidates import whole_blocks
from deepnmt.search.constraints import SentenceLengthRange
from deepnmt.search.coverage import Coverage
from deepnmt.search.ensemble import Prediction
from deepnmt.search.hypotheses import Hypotheses
from deepnmt.search.scores import HypothesisScore
from deepnmt.search.stop_rules import StopRule

EOS, TYPES, POSITIONS = 2, 30, 4
WORDS = range(4, 10)
String = tuple[int, ...]


@dataclass(frozen=True)
class Toy:
    """A sentence: its greatest length, and what follows each string, with the attention of that step."""

    seed: int
    longest: int

    def log_probs(self, string: String) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed, string)) % 2**31)
        logits = torch.full((TYPES,), -math.inf)
        logits[[EOS, *WORDS]] = torch.randn(1 + len(WORDS), generator=generator) * 1.5
        return logits.log_softmax(-1)

    def attention(self, string: String) -> Tensor:
        generator = torch.Generator().manual_seed(hash((self.seed + 1, string)) % 2**31)
        return (torch.randn(POSITIONS, generator=generator) * 2).softmax(-1)


class ToySteps:
    """Predicts from the tables as `EnsembleSteps` predicts from models."""

    def __init__(self, toys: Sequence[Toy]) -> None:
        self.toys = list(toys)
        self.strings: list[list[String]] = [[()] for _ in toys]
        self.rows: list[int] = []

    def __call__(self, tokens: Tensor, step: Any) -> Prediction:
        if step.position:
            self.strings = [
                [(*strings[parent], token) for parent, token in zip(*row)]
                for strings, row in zip(self.strings, zip(step.parents.tolist(), tokens.tolist()))
            ]
        self.rows.append(len(self.strings))
        columns = whole_blocks(TYPES)
        log_probs = torch.full((len(self.strings), len(self.strings[0]), columns), -math.inf)
        attention = torch.zeros(len(self.strings), len(self.strings[0]), POSITIONS)
        for row, (toy, strings) in enumerate(zip(self.toys, self.strings)):
            for place, string in enumerate(strings):
                log_probs[row, place, :TYPES] = toy.log_probs(string)
                attention[row, place] = toy.attention(string)
        return Prediction(log_probs.flatten(0, 1), None, attention)

    def keep(self, sentences: int, holes: Tensor, movers: Tensor) -> None:
        for kept in (self.toys, self.strings):
            for hole, mover in zip(holes.tolist(), movers.tolist()):
                kept[hole] = kept[mover]  # type: ignore[call-overload]
            del kept[sentences:]


Found = list[tuple[String, float]]


def search(
    toys: Sequence[Toy],
    beam: int,
    score: HypothesisScore,
    stop: Callable[[Tensor], StopRule],
    in_beam: bool = False,
) -> tuple[list[Found], list[int]]:
    """The package's search: strings with scores, and the number of sentences in each step.

    `stop` gets the greatest length of each sentence.
    """
    longest = torch.tensor([toy.longest for toy in toys])
    coverage = None
    if score.coverage_penalty is not None:
        coverage = Coverage(torch.ones(len(toys), POSITIONS, dtype=torch.bool), in_beam)
    hypotheses = Hypotheses(
        torch.full((len(toys),), EOS), beam, int(longest.max()), EOS, score, coverage, longest_of=longest
    )
    rule = SentenceLengthRange(EOS, [(0, toy.longest) for toy in toys], longest.device)
    steps: Any = ToySteps(toys)
    assert beam_search(steps, hypotheses, [rule], stop(longest), TYPES)
    found = [[(tuple(h["tokens"][:-1].tolist()), float(h["score"])) for h in each] for each in hypotheses.best()]
    return found, steps.rows


def reference(
    toy: Toy,
    beam: int,
    score: Callable[[float, int, list[float]], float],
    stop: str = "all",
    gap: float = math.inf,
    in_beam: Optional[Callable[[float, int, list[float]], float]] = None,
    bound: Callable[[float], float] = lambda total: math.inf,
) -> tuple[Found, int]:
    """The same with lists and loops, for one sentence; the number of its steps.

    `score` and `in_beam` rate a sum of log-probabilities, a length, and the attention received; `stop` may be "never",
    until the greatest length; `bound` is the best score that a sum can still come to.
    """
    active: list[tuple[String, float, list[float]]] = [((), 0.0, [0.0] * POSITIONS)]
    finished: Found = []
    for length in range(toy.longest + 1):
        candidates = []
        for string, total, before in active:
            received = [sum(pair) for pair in zip(before, toy.attention(string).tolist())]
            for token, value in enumerate(toy.log_probs(string).tolist()):
                if value > -math.inf and (token == EOS or length < toy.longest):
                    candidates.append((string, token, total + value, received))
        rate = in_beam or (lambda total, n, received: total)
        candidates.sort(key=lambda candidate: -rate(candidate[2], length + 1, candidate[3]))
        for string, token, total, received in candidates[:beam]:
            if token == EOS and (stop != "all" or len(finished) < beam):
                finished.append((string, score(total, length + 1, received)))
        best = max((value for _, value in finished), default=-math.inf)
        active = [
            ((*s, token), total, received) for s, token, total, received in candidates[: 2 * beam] if token != EOS
        ]
        active = [entry for entry in active[:beam] if score(entry[1], length + 1, entry[2]) >= best - gap]
        done = {
            "all": len(finished) >= beam,
            "first": candidates[0][1] == EOS,
            "optimal": best >= max((bound(total) for _, total, _ in active), default=-math.inf),
            "never": False,
        }
        if done[stop] or not active:
            break
    finished.sort(key=lambda entry: -entry[1])
    return finished[:beam], length + 1
