"""The options of the search reach fairseq's commands by way of the task."""

from __future__ import annotations

import math

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.search import LexicallyConstrainedBeamSearch
from fairseq.tasks import TASK_REGISTRY
from support.models import EXAMPLE, build, dictionary
from torch import Tensor

import deepnmt
from deepnmt.errors import UserError
from deepnmt.recipe.combinations import rule_faults
from deepnmt.search.generator import BeamGenerator
from deepnmt.search.options import SearchOptions
from deepnmt.search.parts import check_constraints, search_parts
from deepnmt.search.stop_rules import NothingBetter
from deepnmt.translation_task import DeepTranslationTask

deepnmt.register()
GIVEN = """
    --length-penalty gnmt --min-len-ratio 0.5 --max-len-ratio 2 --coverage floor --coverage-weight 0.3
    --coverage-floor 0.2 --coverage-layer 2 --coverage-in-beam --beam-stop first --prune-gap inf
    --ensemble-rule log-linear --ensemble-weights 0.5,0.5 --datastore a:b --neighbours 7 --neighbour-weight 0.2
    --neighbour-temperature 3
"""


def test_an_optimal_stop_reckons_with_the_longest_translation_and_its_end_symbol() -> None:
    mine = BeamGenerator([build()], dictionary(), len_penalty=0.7, max_len_b=200)
    source = torch.tensor([[1, 1, 5, 6, 2], [5, 6, 7, 8, 2]])
    parts = search_parts(mine, SearchOptions(beam_stop="optimal", max_len_ratio=1.5), source)
    assert isinstance(parts.stop, NothingBetter)
    assert parts.stop.largest_penalty.tolist() == pytest.approx([(3 + 1) ** 0.7, (6 + 1) ** 0.7])
    plain = search_parts(mine, SearchOptions(beam_stop="optimal", length_penalty="gnmt"), source)
    assert isinstance(plain.stop, NothingBetter)
    assert plain.stop.largest_penalty.tolist() == pytest.approx([((5 + 201) / 6) ** 0.7] * 2)


@pytest.mark.parametrize(
    "parser", ["get_generation_parser", "get_interactive_generation_parser", "get_training_parser"]
)
def test_commands_take_them(parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = {"get_training_parser": ["--arch", "transformer"]}.get(parser, ["--path", "model.pt"])
    command = ["data", "--task", "deep_translation", *needed, *GIVEN.split()]
    monkeypatch.setattr("sys.argv", ["fairseq"])
    args = options.parse_args_and_arch(getattr(options, parser)(), command)
    found = SearchOptions.of(convert_namespace_to_omegaconf(args).task)
    assert found == SearchOptions(
        length_penalty="gnmt",
        min_len_ratio=0.5,
        max_len_ratio=2.0,
        coverage="floor",
        coverage_weight=0.3,
        coverage_floor=0.2,
        coverage_layer="2",
        coverage_in_beam=True,
        beam_stop="first",
        prune_gap=math.inf,
        ensemble_rule="log-linear",
        ensemble_weights="0.5,0.5",
        datastore="a:b",
        neighbours=7,
        neighbour_weight=0.2,
        neighbour_temperature=3.0,
    )
    assert found.given() == [word for word in GIVEN.split() if word.startswith("--")]
    assert found.weights() == [0.5, 0.5]


def test_none_is_given_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["fairseq"])
    command = ["data", "--task", "deep_translation", "--path", "model.pt"]
    args = options.parse_args_and_arch(options.get_generation_parser(), command)
    assert SearchOptions.of(convert_namespace_to_omegaconf(args).task).given() == []
    assert TASK_REGISTRY["deep_translation"] is DeepTranslationTask


@pytest.mark.parametrize("prefix", [None, torch.tensor([[5], [6]])], ids=["own-search", "fairseqs"])
def test_a_least_length_beyond_the_greatest(prefix: Tensor | None) -> None:
    inputs = {name: EXAMPLE[name] for name in ("src_tokens", "src_lengths")}

    def translated(least: int) -> list[int]:
        # Sources of six tokens: translations of at most 4.
        generator = BeamGenerator(
            [build().float()], dictionary(), beam_size=2, max_len_a=0.5, max_len_b=1, min_len=least
        )
        found = generator.generate([], {"net_input": inputs}, prefix_tokens=prefix)
        return [len(hypotheses[0]["tokens"]) - 1 for hypotheses in found]

    assert translated(4) == [4, 4]
    with pytest.raises(UserError, match=r"^--min-len must be at most .* 4 for a source of 6, but is 5$"):
        translated(5)


def test_constraints_that_nobody_gave() -> None:
    inputs = {name: EXAMPLE[name] for name in ("src_tokens", "src_lengths")}
    strategy = LexicallyConstrainedBeamSearch(dictionary(), "ordered")
    generator = BeamGenerator([build().float()], dictionary(), beam_size=2, search_strategy=strategy)
    with pytest.raises(UserError, match=r"^--constraints must be given to fairseq-interactive alone"):
        generator.generate([], {"net_input": inputs})


def test_constraints_longer_than_a_translation() -> None:
    # each row: how many, then the tokens of each and a 0
    two, three = torch.tensor([2, 5, 0, 6, 0, 0]), torch.tensor([1, 5, 6, 7, 0, 0])
    check_constraints(None, 1)
    check_constraints(torch.stack([two, three]), 3)
    check_constraints(two[None], 2)
    with pytest.raises(UserError, match=r"^--constraints must have at most .*, 2, but a sentence has 3$"):
        check_constraints(torch.stack([two, three]), 2)
    inputs = {name: EXAMPLE[name] for name in ("src_tokens", "src_lengths")}
    strategy = LexicallyConstrainedBeamSearch(dictionary(), "ordered")
    generator = BeamGenerator([build().float()], dictionary(), beam_size=2, max_len_b=2, search_strategy=strategy)
    with pytest.raises(UserError, match=r"^--constraints must have at most .*, 2, but a sentence has 3$"):
        generator.generate([], {"net_input": inputs}, constraints=three.expand(len(inputs["src_tokens"]), -1))


def test_options_of_a_search_need_a_training_that_searches() -> None:
    training = {"task": "deep_translation", "criterion": "cross_entropy", "coverage": "gnmt", "prune_gap": 2.0}
    rest = "needs eval-bleu, since this training does not search otherwise"
    assert list(rule_faults(training, {})) == [("coverage", rest), ("prune-gap", rest)]
    written = {**training, "coverage": "none", "prune_gap": None, "nbest_file": "f"}
    assert list(rule_faults(written, {})) == [("nbest-file", rest)]
    for more in (
        {"eval_bleu": True},
        {"criterion": "label_smoothed_cross_entropy_mrt"},
        {"coverage": "none", "prune_gap": None},
    ):
        assert not list(rule_faults({**training, **more}, {}))
    dual = {"task": "deep_dual", "arch": "dlcl_dual", "criterion": "dual_supervised", "lambda_otf": 1.0}
    assert not list(rule_faults({**training, **dual}, {}))
    rest = "cannot be combined with lambda-dual, which samples"
    assert list(rule_faults({**training, **dual, "lambda_dual": 0.1}, {})) == [("coverage", rest), ("prune-gap", rest)]
