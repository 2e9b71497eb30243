"""The search in numpy gives what fairseq's generator gives, and what a search written for reading gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from support.models import PRE_NORM, dictionary
from support.onnx_models import onnx_engine
from support.searched_models import MANY, SENTENCES, model, sample
from support.toy_search import TYPES, Toy, reference

from deepnmt.engines.engine import SearchSettings
from deepnmt.engines.onnx.search import Limits, Move, Prediction, Step, beam_search
from deepnmt.errors import UserError


class ToySteps:
    """Predicts from the tables of `toy_search`, and follows the parents as a cache would."""

    def __init__(self, toys: Sequence[Toy]) -> None:
        self.toys = np.array(toys, dtype=object)
        self.rows: list[tuple[Toy, tuple[int, ...]]] = [(toy, ()) for toy in toys]
        self.sentences: list[int] = []

    def __call__(self, step: Step) -> Prediction:
        self.rows = [
            (self.rows[parent][0], (*self.rows[parent][1], int(token)) if step.position else ())
            for parent, token in zip(step.parents, step.tokens.flatten())
        ]
        self.sentences.append(len(step.tokens))
        assert [toy for toy, _ in self.rows[:: step.tokens.shape[1]]] == list(self.toys)
        table = np.stack([toy.log_probs(string).numpy() for toy, string in self.rows])
        types = np.argsort(-table, axis=1, kind="stable")[:, : step.best]
        shape = (*step.tokens.shape, -1)
        asked = np.take_along_axis(table, step.asked.reshape(-1, 1), 1).reshape(step.asked.shape)
        return Prediction(np.take_along_axis(table, types, 1).reshape(shape), types.reshape(shape), asked)

    def keep(self, move: Move) -> None:
        self.toys = move.of(self.toys)


@pytest.mark.parametrize("lenpen", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("beam", [1, 2, 4])
def test_tables(beam: int, lenpen: float) -> None:
    """An end that comes at once is forbidden, which the tables leave very likely."""
    toys = [Toy(seed, 9) for seed in range(40)]
    steps = ToySteps(toys)
    found = beam_search(steps, len(toys), Limits(beam, 9, lenpen, TYPES))
    for toy, hypotheses in zip(toys, found, strict=True):
        expected, _ = reference(toy, beam, lambda total, n, received: total / n**lenpen)
        if any(not string for string, _ in expected):
            continue
        assert [tuple(hypothesis.types) for hypothesis in hypotheses] == [string for string, _ in expected]
        scores = [score for _, score in expected]
        assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx(scores, abs=1e-5)
    assert len(set(steps.sentences)) > 5, "sentences that are done leave the batch"


def test_a_step_that_is_not_a_number() -> None:
    class Faulty(ToySteps):
        def __call__(self, step: Step) -> Prediction:
            log_probs, types, asked = super().__call__(step)
            return Prediction(np.where(types == 5, np.float32(math.nan), log_probs), types, asked)

    found = beam_search(Faulty([Toy(1, 6)]), 1, Limits(3, 6, 1.0, TYPES))
    assert found[0]
    assert not any(5 in hypothesis.types or math.isnan(hypothesis.score) for hypothesis in found[0])


SEARCHES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "greedy": ({"beam_size": 1}, {"beam": 1}),
    "wide": ({"beam_size": 11}, {"beam": 11}),
    "wider than the vocabulary": ({"beam_size": 40}, {"beam": 40}),
    "length penalty": ({"len_penalty": 0.4}, {"lenpen": 0.4}),
    "by the source": ({"max_len_a": 0.5, "max_len_b": 2}, {"max_len_a": 0.5, "max_len_b": 2}),
    "one word": ({"max_len_b": 1}, {"max_len_b": 1}),
    "all positions": ({"max_len_b": 200}, {"max_len_b": 200}),
}
FEW_POSITIONS = {**PRE_NORM, "max_target_positions": 9}


def assert_same(net: Any, engine: Any, words: Any, given: dict[str, Any], settings: dict[str, Any]) -> list[Any]:
    settings = {"max_len_b": 30, "beam": 5, **settings}
    with torch.no_grad():
        stock = SequenceGenerator([net], words, **{"beam_size": 5, "max_len_b": 30, **given}).generate([net], sample())
    sources = [[words[number] for number in sentence] for sentence in SENTENCES]
    found = engine.search(sources, SearchSettings(nbest=settings["beam"], **settings))
    for expected, hypotheses in zip(stock, found, strict=True):
        assert len(expected) == len(hypotheses)
        for one, other in zip(expected, hypotheses):
            assert [words[number] for number in one["tokens"].tolist() if number not in (0, 2)] == other.tokens
            assert other.score == pytest.approx(float(one["score"]), abs=1e-5)
    return stock


@pytest.mark.parametrize("types", [20, 300])
def test_every_setting(types: int) -> None:
    words = dictionary(types)
    net = model(FEW_POSITIONS, words)
    engine = onnx_engine(net, FEW_POSITIONS, words)
    for given, settings in SEARCHES.values():
        stock = assert_same(net, engine, words, given, settings)
    assert max(len(hypothesis["tokens"]) for found in stock for hypothesis in found) == 9


def test_few_types() -> None:
    """So few that some places of a wide beam stay empty."""
    words, wide = dictionary(22), {"beam_size": 24, "max_len_b": 6}
    for seed in range(3):
        net = model(PRE_NORM, words, seed)
        assert_same(net, onnx_engine(net, PRE_NORM, words), words, wide, {"beam": 24, "max_len_b": 6})


def test_options_of_other_engines_are_refused() -> None:
    engine = onnx_engine(model(PRE_NORM, MANY), PRE_NORM, MANY)
    with pytest.raises(UserError, match=r"^--coverage cannot be combined with --engine onnx; use --engine torch$"):
        engine.search([["w1"]], SearchSettings(more={"coverage": "gnmt"}))
