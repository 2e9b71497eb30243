"""Every score of the search against all strings there are, which the model itself scores in float64.

Of 400 types, 4 are words that may come; with at most 3 of them there are 85 strings. A beam of 85 has room for all.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from argparse import Namespace
from functools import cache
from typing import Any

import pytest
import torch
from support.language_models import language_model
from support.models import PRE_NORM, SIZE, batch, dictionary, scramble, task

from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.search.generator import BeamGenerator
from deepnmt.search.options import SearchOptions
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

TYPES = dictionary(396)
WORDS, EOS, LONGEST = (4, 5, 6, 7), 2, 3
OTHERS = tuple(TYPES[number] for number in range(len(TYPES)) if number not in (*WORDS, EOS, TYPES.pad(), TYPES.unk()))
STRINGS = [string for length in range(LONGEST + 1) for string in itertools.product(WORDS, repeat=length)]
SENTENCES = [[9, 10, 11, 12, 13], [30, 31]]
LAYERS = 3

LANGUAGE_MODEL = language_model(TYPES)


@cache
def model(seed: int) -> DLCLTransformerModel:
    torch.manual_seed(seed)
    options: dict[str, Any] = PRE_NORM if seed == 1 else {"merged_attention": True}
    config = DLCLTransformerConfig(**{**SIZE, "dropout": 0.0, **options})
    result = DLCLTransformerModel.build_model(config, task(TYPES))
    scramble(result)
    with torch.no_grad():
        result.decoder.embed_tokens.weight[[*WORDS, EOS]] *= 3
        result.decoder.output_projection.weight[[*WORDS, EOS]] *= 3
        for layer in result.decoder.layers:
            layer.encoder_attn.q_proj.weight *= 4  # attention that differs from word to word
    return result.eval()


@cache
def scored(seed: int, sentence: int) -> list[list[torch.Tensor]]:
    """For each string, all log-probabilities, T x V, and the attention of each layer, T x S without the end symbol."""
    net = copy.deepcopy(model(seed)).double()
    inputs = batch([SENTENCES[sentence]] * len(STRINGS), [list(string) for string in STRINGS])
    with torch.no_grad():
        encoded = net.encoder(inputs["src_tokens"], src_lengths=inputs["src_lengths"])
        runs = [
            net.decoder(inputs["prev_output_tokens"], encoder_out=encoded, alignment_layer=layer)
            for layer in range(LAYERS)
        ]
    log_probs = runs[0][0].log_softmax(-1)
    attention = [run[1]["attn"][0][..., :-1] for run in runs]
    return [
        [log_probs[row, : len(string) + 1], *(layer[row, : len(string) + 1] for layer in attention)]
        for row, string in enumerate(STRINGS)
    ]


@cache
def fluency() -> list[float]:
    """What the language model says of each string."""
    net = copy.deepcopy(LANGUAGE_MODEL).double()
    inputs = batch(SENTENCES[:1] * len(STRINGS), [list(string) for string in STRINGS])
    with torch.no_grad():
        log_probs = net(inputs["prev_output_tokens"])[0].log_softmax(-1)
    return [float(sum(row[t, token] for t, token in enumerate([*s, EOS]))) for row, s in zip(log_probs, STRINGS)]


def log_p(tables: list[torch.Tensor], string: tuple[int, ...], rule: str, weights: list[float]) -> float:
    if rule == "linear":
        combined = sum(weight * table.exp() for weight, table in zip(weights, tables)).log()  # type: ignore[union-attr]
    else:
        product = torch.stack([table.exp() ** weight for weight, table in zip(weights, tables)]).prod(0)
        combined = (product / product.sum(-1, keepdim=True)).log()
    return sum(float(combined[place, token]) for place, token in enumerate([*string, EOS]))


def divisor(kind: str, n: int, a: float) -> float:
    return {"power": n**a, "gnmt": (5 + n) ** a / 6**a, "log": a * math.log(n), "none": 1.0}[kind]


def penalty(attention: torch.Tensor, kind: str, weight: float, floor: float) -> float:
    received = attention.sum(0).tolist()
    if kind == "gnmt":
        return weight * sum(math.log(max(min(total, 1), 1e-6)) for total in received)
    return weight * sum(math.log(max(total, floor)) for total in received)


def expected(options: dict[str, Any], generation: dict[str, Any], seeds: tuple[int, ...], sentence: int) -> list[float]:
    weights = options.get("ensemble_weights")
    weights = [1 / len(seeds)] * len(seeds) if weights is None else [float(weight) for weight in weights.split(",")]
    kind = "none" if generation.get("unnormalized") else options.get("length_penalty", "power")
    coverage, layer = options.get("coverage", "none"), options.get("coverage_layer", "last")
    results = []
    for row, string in enumerate(STRINGS):
        models = [scored(seed, sentence)[row] for seed in seeds]
        total = log_p([tables[0] for tables in models], string, options.get("ensemble_rule", "linear"), weights)
        total += generation.get("lm_weight", 0.0) * fluency()[row]
        under = divisor(kind, len(string) + 1, generation.get("lenpen", 1.0))
        score = total / under if under else -math.inf
        if coverage != "none":
            chosen = range(LAYERS) if layer == "mean" else [LAYERS - 1 if layer == "last" else int(layer) - 1]
            attention = sum(
                weight * tables[1 + index] / len(chosen) for weight, tables in zip(weights, models) for index in chosen
            )
            floor = options.get("coverage_floor", 1.0)
            score += penalty(attention, coverage, options["coverage_weight"], floor)  # type: ignore[arg-type]
        results.append(score)
    return results


def search(
    options: dict[str, Any],
    generation: dict[str, Any] | None = None,
    seeds: tuple[int, ...] = (1,),
    sentences: tuple[int, ...] = (0, 1),
) -> list[list[tuple[tuple[int, ...], float]]]:
    """The strings that the task's generator finds, with their scores."""
    task_ = DeepTranslationTask(DeepTranslationConfig(**options), TYPES, TYPES)
    models = [model(seed) for seed in seeds]
    args = Namespace(**{"beam": len(STRINGS), "max_len_b": LONGEST, "min_len": 0, **(generation or {})})
    fusion = {"lm_model": LANGUAGE_MODEL, "lm_weight": args.lm_weight} if hasattr(args, "lm_weight") else {}
    generator = task_.build_generator(models, args, extra_gen_cls_kwargs={"tokens_to_suppress": OTHERS, **fusion})
    assert type(generator) is BeamGenerator
    generator.unk_penalty = math.inf  # which the command line refuses
    inputs = batch([SENTENCES[number] for number in sentences], [[5]] * len(sentences))
    del inputs["prev_output_tokens"]
    with torch.no_grad():
        found = generator.generate(models, {"net_input": inputs})
    return [[(tuple(h["tokens"][:-1].tolist()), float(h["score"])) for h in hypotheses] for hypotheses in found]


TWO = {"seeds": (1, 2)}
GNMT = {"coverage": "gnmt", "coverage_weight": 0.3}
FLOOR = {"coverage": "floor", "coverage_weight": 0.4, "coverage_floor": 0.2}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "fairseq's": ({}, {}, {}),
    "power": ({}, {"lenpen": 0.6}, {}),
    "unnormalized": ({}, {"unnormalized": True}, {}),
    "gnmt": ({"length_penalty": "gnmt"}, {"lenpen": 0.8}, {}),
    "gnmt, shorter": ({"length_penalty": "gnmt"}, {"lenpen": -0.8}, {}),
    "log": ({"length_penalty": "log"}, {"lenpen": 0.7}, {}),
    "coverage": (GNMT, {}, {}),
    "coverage with a floor": (FLOOR, {}, {}),
    "coverage of all layers": ({**GNMT, "coverage_layer": "mean"}, {}, {}),
    "coverage of a layer": ({**FLOOR, "coverage_layer": "2"}, {}, {}),
    "coverage in the beam": ({**GNMT, "coverage_in_beam": True}, {}, {}),
    "coverage, log": ({**FLOOR, "length_penalty": "log"}, {"lenpen": 2.0}, {}),
    "ensemble": ({}, {}, TWO),
    "weighted": ({"ensemble_weights": "0.7,0.3"}, {}, TWO),
    "log-linear": ({"ensemble_rule": "log-linear"}, {}, TWO),
    "log-linear, weighted": ({"ensemble_rule": "log-linear", "ensemble_weights": "0.2,0.8"}, {}, TWO),
    "fusion": ({}, {"lm_weight": 0.7}, {}),
    "all at once": (
        {**GNMT, "coverage_layer": "mean", "length_penalty": "gnmt", "ensemble_weights": "0.7,0.3"},
        {"lenpen": 1.3, "lm_weight": 0.4},
        TWO,
    ),
}


@pytest.mark.parametrize(("options", "generation", "more"), CASES.values(), ids=CASES)
def test_order_of_all_strings(options: dict[str, Any], generation: dict[str, Any], more: dict[str, Any]) -> None:
    for sentence, found in enumerate(search(options, generation, **more)):
        scores = dict(zip(STRINGS, expected(options, generation, more.get("seeds", (1,)), sentence)))
        assert {string for string, _ in found} == scores.keys()
        assert [score for _, score in found] == pytest.approx([scores[string] for string, _ in found], abs=2e-4)
        assert [score for _, score in found] == pytest.approx(sorted(scores.values(), reverse=True), abs=2e-4)


def test_cases_differ() -> None:
    """Each case has an order of its own, or its options would not be seen to work."""
    orders = {}
    for name, (options, generation, more) in CASES.items():
        scores = expected(options, generation, more.get("seeds", (1,)), 0)
        orders[name] = tuple(sorted(range(len(STRINGS)), key=lambda row: -scores[row]))
    assert orders.pop("coverage in the beam") == orders["coverage"]
    assert len(set(orders.values())) == len(orders)


def test_factor_of_the_log_penalty_changes_no_order() -> None:
    one, other = (search({"length_penalty": "log"}, {"lenpen": a}) for a in (0.5, 3.0))
    assert [[string for string, _ in found] for found in one] == [[string for string, _ in found] for found in other]
    assert all(found[-1] == ((), -math.inf) for found in one)


@pytest.mark.parametrize(
    "same", [{"ensemble_weights": "1,0"}, {"ensemble_weights": "1,0", "ensemble_rule": "log-linear"}]
)
def test_model_without_weight_does_not_count(same: dict[str, Any]) -> None:
    options = {**FLOOR, "coverage_layer": "mean"}
    for alone, both in zip(search(options), search({**options, **same}, **TWO)):
        assert [string for string, _ in both] == [string for string, _ in alone]
        assert [score for _, score in both] == pytest.approx([score for _, score in alone], abs=2e-5)


@pytest.mark.parametrize("rule", ["linear", "log-linear"])
def test_equal_models_are_one(rule: str) -> None:
    weights = {"ensemble_rule": rule, "ensemble_weights": "0.4,0.6"}
    for one, two in zip(search({}), search(weights, seeds=(1, 1))):
        assert dict(two) == pytest.approx(dict(one), abs=2e-5)


@pytest.mark.parametrize("generation", [{"beam": 85}, {"beam": 3}])
@pytest.mark.parametrize("kind", [GNMT, FLOOR])
def test_coverage_of_weight_0_changes_nothing(kind: dict[str, Any], generation: dict[str, Any]) -> None:
    zero = {**kind, "coverage_weight": 0.0, "coverage_in_beam": True}
    assert search(zero, generation) == search({}, generation)


@pytest.mark.parametrize(
    ("low", "high", "ranges"),
    [
        (None, 0.5, [(0, 2), (0, 1)]),
        (0.6, None, [(3, 3), (2, 3)]),
        (0.2, 0.8, [(1, 3), (1, 1)]),
        (0.5, 0.55, [(3, 3), (1, 1)]),  # 2.5 <= n <= 2.75: none, so that the lower bound is allowed
        (2.0, 3.0, [(3, 3), (3, 3)]),  # --max-len-b holds besides
    ],
)
def test_length_range(low: float | None, high: float | None, ranges: list[tuple[int, int]]) -> None:
    options = {"min_len_ratio": low, "max_len_ratio": high}
    together = search(options)
    for number, (found, (shortest, longest)) in enumerate(zip(together, ranges)):
        assert {string for string, _ in found} == {s for s in STRINGS if shortest <= len(s) <= longest}
        # A neighbour, and with it the width of the batch, changes nothing.
        (alone,) = search(options, sentences=(number,))
        assert [string for string, _ in found] == [string for string, _ in alone]
        assert [score for _, score in found] == pytest.approx([score for _, score in alone], abs=1e-5)
        # A narrow beam keeps to the range, too.
        (few,) = search(options, {"beam": 2}, sentences=(number,))
        assert len(few) == 2 or longest == 0
        assert all(shortest <= len(string) <= longest for string, _ in few)


def test_length_range_needs_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    from deepnmt.search import generator

    stock, positions = generator.DecoderSteps.__call__, []

    def count(self: Any, tokens: Any, step: Any) -> Any:
        positions.append(step.position)
        return stock(self, tokens, step)

    monkeypatch.setattr(generator.DecoderSteps, "__call__", count)
    search({"max_len_ratio": 0.5}, {"max_len_b": 100})
    assert positions == [0, 1, 2]


def test_without_options_the_task_is_that_of_fairseq() -> None:
    assert SearchOptions().given() == []
    task_ = DeepTranslationTask(DeepTranslationConfig(), TYPES, TYPES)
    generator = task_.build_generator([model(1)], Namespace(sampling=True))
    assert not generator.options.given()
    assert type(task_.build_generator([model(1)], Namespace(no_beamable_mm=True))) is not BeamGenerator


ALONE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "log of nothing": ({"length_penalty": "log"}, {"lenpen": 0}, r"--lenpen: must be above 0 with .* log, but is 0$"),
    "unnormalized": (
        {"length_penalty": "gnmt"},
        {"unnormalized": True},
        "--length-penalty gnmt cannot be combined with --unnormalized",
    ),
    "low": ({"min_len_ratio": -0.5}, {}, "--min-len-ratio must be a finite number of at least 0, but is -0.5"),
    "high": ({"max_len_ratio": 0.0}, {}, "--max-len-ratio must be a finite number above 0, but is 0.0"),
    "low above high": (
        {"min_len_ratio": 2.0, "max_len_ratio": 1.0},
        {},
        "--min-len-ratio: must be at most --max-len-ratio, 1.0, but is 2.0",
    ),
    "weight without coverage": ({"coverage_weight": 0.2}, {}, "--coverage-weight needs --coverage gnmt or"),
    "no weight": ({"coverage": "gnmt"}, {}, "--coverage needs --coverage-weight$"),
    "floor above 1": (
        {**FLOOR, "coverage_floor": 1.5},
        {},
        "--coverage-floor must be above 0 and at most 1, but is 1.5",
    ),
    "floor of 0": ({**FLOOR, "coverage_floor": 0.0}, {}, "--coverage-floor must be above 0 .* but is 0.0"),
    "no floor": (
        {"coverage": "floor", "coverage_weight": 0.2},
        {},
        "--coverage floor needs --coverage-floor$",
    ),
    "floor of the other": (
        {**GNMT, "coverage_floor": 0.5},
        {},
        "--coverage-floor 0.5 needs --coverage floor",
    ),
    "layer": ({**GNMT, "coverage_layer": "first"}, {}, "--coverage-layer must be last, mean, or .* but is first"),
    "layer 0": ({**GNMT, "coverage_layer": "0"}, {}, "--coverage-layer must be last, mean, or .* but is 0"),
    "layer 4": (
        {**GNMT, "coverage_layer": "4"},
        {},
        "--coverage-layer: must be at most the number of decoder layers, 3, but is 4",
    ),
    "gap": ({"prune_gap": -1.0}, {}, "--prune-gap must be at least 0, but is -1.0"),
    "optimal and floor": (
        {**FLOOR, "beam_stop": "optimal"},
        {},
        "--beam-stop optimal cannot be combined with --coverage floor, which may raise scores",
    ),
    "optimal and shorter": (
        {"beam_stop": "optimal"},
        {"lenpen": -1.0},
        "--lenpen: must be at least 0 with --beam-stop optimal, but is -1.0",
    ),
    "optimal and unknown": (
        {"beam_stop": "optimal"},
        {"unkpen": -1.0},
        "--unkpen: must be at least 0 with --beam-stop optimal, but is -1.0",
    ),
    "weights": ({"ensemble_weights": "a"}, {}, "--ensemble-weights: must be numbers with commas .* but is a"),
    "two weights": ({"ensemble_weights": "0.5,0.5"}, {}, "--ensemble-weights: must be as many as models, 1, but is"),
    "sum": ({"ensemble_weights": "0.5"}, {}, "--ensemble-weights: must be at least 0 and sum to 1, but is 0.5"),
    "sampling": ({"prune_gap": 3.0}, {"sampling": True}, "--sampling cannot be combined with --prune-gap, which"),
    "match": (
        {"min_len_ratio": 1.0},
        {"match_source_len": True},
        "--match-source-len cannot be combined with --min-len-ratio",
    ),
    "fairseq's search": ({"prune_gap": 1.0}, {"no_beamable_mm": True}, "--no-beamable-mm cannot be combined with"),
}


@pytest.mark.parametrize(("options", "generation", "message"), ALONE.values(), ids=ALONE)
def test_refused(options: dict[str, Any], generation: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}") as error:
        search(options, generation)
    assert len(str(error.value).splitlines()) == 1


def test_negative_weight_is_refused() -> None:
    with pytest.raises(UserError, match=r"^--ensemble-weights: must be at least 0 and sum to 1, but is 1.5,-0.5$"):
        search({"ensemble_weights": "1.5,-0.5"}, **TWO)


def test_all_faults_at_once() -> None:
    options = {"length_penalty": "log", "coverage_floor": 0.5, "ensemble_weights": "2"}
    with pytest.raises(UserError, match="--lenpen") as error:
        search(options, {"lenpen": -1.0, "sampling": True})
    named = [re.split("[: ]", line)[0] for line in str(error.value).splitlines()]
    assert named == ["--lenpen", "--coverage-floor", "--ensemble-weights", "--sampling"]
    with pytest.raises(UserError, match="--min-len-ratio") as error:
        search({"min_len_ratio": -1.0, "prune_gap": -1.0, "coverage_floor": 2.0})
    named = [line.split(" ")[0] for line in str(error.value).splitlines()]
    assert named == ["--min-len-ratio", "--coverage-floor", "--prune-gap"]


def test_coverage_needs_attention_to_the_source() -> None:
    torch.manual_seed(1)
    config = DLCLTransformerConfig(**{**SIZE, "no_cross_attention": True})
    net = DLCLTransformerModel.build_model(config, task(TYPES)).eval()
    task_ = DeepTranslationTask(DeepTranslationConfig(**GNMT), TYPES, TYPES)
    with pytest.raises(UserError, match=r"^--coverage needs a model with cross-attention$"):
        task_.build_generator([net], Namespace())


def test_what_the_search_does_not_know_is_refused() -> None:
    task_ = DeepTranslationTask(DeepTranslationConfig(prune_gap=1.0), TYPES, TYPES)
    net = copy.deepcopy(model(1))
    net.decoder.layers[0].fc1 = torch.nn.Sequential(net.decoder.layers[0].fc1)
    with pytest.raises(UserError, match=r"^--prune-gap cannot be used: a feed-forward sublayer has other maps"):
        task_.build_generator([net], Namespace())
    generator = task_.build_generator([model(1)], Namespace())
    inputs = batch(SENTENCES, [[5]] * 2)
    with pytest.raises(UserError, match=r"^--prune-gap cannot be used: translations have a given prefix$"):
        generator.generate([], {"net_input": inputs}, prefix_tokens=torch.tensor([[5], [6]]))
