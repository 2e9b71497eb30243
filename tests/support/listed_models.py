"""Shortlists for the small random models, and searches with them that are written for reading."""

from __future__ import annotations

import copy
import math
from argparse import Namespace
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from deepnmt.engines.engine import Hypothesis
from deepnmt.engines.onnx.engine import ENCODER, STEP, OnnxEngine, session
from deepnmt.engines.onnx.writer import write_model
from deepnmt.engines.torch.fairseq_engine import TorchEngine
from deepnmt.search.shortlist import Shortlist
from deepnmt.text.record import SHORTLIST
from support.onnx_models import options
from support.plain_search import EOS, PAD, Following, beam_search, in_range
from support.searched_models import MANY, sample

# Numbers of types of MANY, which has 304.
FREQUENT = [4, 7, 20, 31, 99]
SENTENCES = [[5, 6, 7, 8, 9, 10, 11], [12, 13], [14, 15, 16, 5], [3], [303], [], [21, 22, 5, 5, 6, 3]]
SOURCES = [[MANY[number] for number in sentence] for sentence in SENTENCES]
LONGEST = 6


def candidates(number: int) -> list[int]:
    """What a source type may be translated to: none to three types, some of them common, and some of several words."""
    others = [(number * 37) % 300 + 4, (number % 5) * 50 + 10, 20]
    return others[: number % 4] if number >= 4 else []


def shortlist() -> Shortlist:
    rows = [(candidates(number) + [EOS] * 3)[:3] for number in range(len(MANY))]
    return Shortlist(np.array(FREQUENT), np.array(rows), len(MANY))


def listed(sentence: Sequence[int]) -> set[int]:
    """The list of a sentence, as a set."""
    return {0, PAD, EOS, 3, *FREQUENT, *(other for number in sentence for other in candidates(number))}


def following(nets: Sequence[Any], sentence: list[int], on: Collection[int]) -> Following:
    """What models say of translations with the types of a list, in float64: the mean of their softmax over the list."""
    nets = [copy.deepcopy(net).double() for net in nets]
    inputs = sample([sentence])["net_input"]
    with torch.no_grad():
        encoded = [net.encoder(inputs["src_tokens"], src_lengths=inputs["src_lengths"]) for net in nets]

    @cache
    def log_probs(words: tuple[int, ...]) -> dict[int, float]:
        mean = dict.fromkeys(on, 0.0)
        for net, out in zip(nets, encoded):
            with torch.no_grad():
                logits = net.decoder(torch.tensor([[EOS, *words]]), encoder_out=out)[0][0, -1].tolist()
            total = sum(math.exp(logits[number]) for number in on)
            mean = {number: mean[number] + math.exp(logits[number]) / total / len(nets) for number in on}
        return {number: math.log(value) for number, value in mean.items() if number != PAD}

    return log_probs


@dataclass(frozen=True)
class Wanted:
    """A translation: its types as they are shown, which leaves out `<s>`, its score, and all its types."""

    tokens: list[str]
    score: float
    types: int


def expected(nets: Sequence[Any], beam: int) -> list[list[Wanted]]:
    """The translations of `SENTENCES`, each by itself, the best first."""
    found = []
    for sentence in SENTENCES:
        limited = in_range(following(nets, sentence, listed(sentence)), 1, LONGEST)
        best = beam_search(limited, beam)
        found.append([Wanted([MANY[n] for n in words if n], score, len(words)) for words, score in best])
    return found


def assert_found(results: Sequence[Sequence[Hypothesis]], wanted: Sequence[Sequence[Wanted]]) -> None:
    """Compare an engine's n-best lists, and the sums of which the scores are means."""
    for hypotheses, others in zip(results, wanted, strict=True):
        assert [each.tokens for each in hypotheses] == [each.tokens for each in others]
        for each, other in zip(hypotheses, others):
            assert math.isclose(each.score, other.score, abs_tol=2e-5), (each, other)
            assert each.log_prob is not None
            assert math.isclose(each.log_prob, other.score * (other.types + 1), abs_tol=1e-4), (each, other)


def torch_engine(nets: Sequence[Any], lists: Shortlist | None = None) -> TorchEngine:
    task = Namespace(source_dictionary=MANY, target_dictionary=MANY, cfg=Namespace(left_pad_source=True))
    return TorchEngine([copy.deepcopy(net) for net in nets], task, Path("."), "cpu", lists or shortlist())


def onnx_engine(
    net: Any, given: dict[str, Any], weights: str = "float32", lists: Shortlist | None = None
) -> OnnxEngine:
    lists = lists or shortlist()
    with TemporaryDirectory() as name:
        folder = Path(name)
        lists.write(folder / SHORTLIST)
        write_model(net, options(given), folder, weights)
        graphs = (session(folder / file, 1) for file in (ENCODER, STEP))
        return OnnxEngine(*graphs, MANY.symbols, MANY.symbols, lists)
