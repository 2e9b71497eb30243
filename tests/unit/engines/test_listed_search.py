"""Searches with shortlists: against one that is written for reading, by both engines, alone and in batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.listed_models import LONGEST, SOURCES, assert_found, expected, onnx_engine, torch_engine
from support.models import PRE_NORM
from support.onnx_models import onnx_engine as plain_onnx_engine
from support.searched_models import MANY, model
from support.slow import slow_but

from deepnmt.engines.engine import Engine, SearchSettings
from deepnmt.errors import UserError
from deepnmt.reference import REFERENCE
from deepnmt.search import constraints
from deepnmt.search.shortlist import Shortlist

SETTINGS = SearchSettings(beam=4, nbest=4, max_len_b=LONGEST)
KINDS: dict[str, dict[str, Any]] = {
    "dlcl": PRE_NORM,
    "merged": {**PRE_NORM, "merged_attention": True},
    "ssru": {**PRE_NORM, "decoder_self_attention": "ssru"},
    "shared attention": {"decoder_self_attention": "shared", "shared_cross_attention": True},
    "other widths": {"decoder_output_dim": 20, "share_decoder_input_output_embed": False},
    "shared": {"share_all_embeddings": True, "decoder_max_relative_length": 3},
}


def engine_of(name: str, given: dict[str, Any]) -> Engine:
    net = model(given, MANY)
    return torch_engine([net]) if name == "torch" else onnx_engine(net, given)


@pytest.mark.parametrize(
    ("name", "kind"),
    slow_but([("torch", "dlcl"), ("onnx", "dlcl")], [(name, kind) for name in ("torch", "onnx") for kind in KINDS]),
)
def test_translations_are_of_each_sentences_own_list(name: str, kind: str) -> None:
    engine, wanted = engine_of(name, KINDS[kind]), expected([model(KINDS[kind], MANY)], SETTINGS.beam)
    assert_found(engine.search(SOURCES, SETTINGS), wanted)
    for source, alone in zip(SOURCES, wanted, strict=True):
        assert_found(engine.search([source], SETTINGS), [alone])
    # Batches of other neighbours, and of fewer.
    assert_found(engine.search(SOURCES[::-2], SETTINGS), wanted[::-2])


@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_a_word_that_the_model_does_not_know(name: str) -> None:
    engine = engine_of(name, PRE_NORM)
    assert engine.search([["never seen", "w1"]], SETTINGS) == engine.search([["<unk>", "w1"]], SETTINGS)


def test_an_ensemble_has_the_mean_of_softmaxes_over_the_list() -> None:
    nets = [model(PRE_NORM, MANY, seed) for seed in (1, 2)]
    assert_found(torch_engine(nets).search(SOURCES, SETTINGS), expected(nets, SETTINGS.beam))


def test_fairseqs_search_does_not_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REFERENCE, "1")
    net = model(PRE_NORM, MANY)
    assert_found(torch_engine([net]).search(SOURCES, SETTINGS), expected([net], SETTINGS.beam))
    with torch.no_grad():
        net.decoder.output_projection.weight[4] = torch.nan
    with pytest.raises(UserError, match=r"^--shortlist cannot be used: a log-probability is not a number$"):
        torch_engine([net]).search(SOURCES, SETTINGS)


@pytest.mark.parametrize("name", ["torch", "onnx"])
def test_scores_of_given_translations_are_of_all_types(name: str) -> None:
    engine, plain = engine_of(name, PRE_NORM), plain_onnx_engine(model(PRE_NORM, MANY), PRE_NORM, MANY)
    targets = [["w50"], ["w1", "w299", "w7"], [], ["w0"], ["never seen"], ["w200"], ["w3"]]
    for found, wanted in zip(engine.score(SOURCES, targets), plain.score(SOURCES, targets), strict=True):
        assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("weights", ["float32", "int8"])
@pytest.mark.parametrize("frequent", [300, 0])
def test_a_list_of_all_types_is_the_plain_search(weights: str, frequent: int) -> None:
    """Whether they are common, or further ones of each sentence."""
    net = model(PRE_NORM, MANY)
    candidates = np.full((304, 300 - frequent + 1), 2)
    candidates[2, 1:] = np.arange(4 + frequent, 304)  # of the end symbol, which every source has
    lists = Shortlist(np.arange(4, 4 + frequent), candidates, 304)
    engine, plain = onnx_engine(net, PRE_NORM, weights, lists), plain_onnx_engine(net, PRE_NORM, MANY, weights)
    (score,) = plain.score([["w1"]], [["w2", "w299"]])
    assert engine.score([["w1"]], [["w2", "w299"]])[0] == pytest.approx(score, abs=2e-5)
    for one, other in zip(engine.search(SOURCES, SETTINGS), plain.search(SOURCES, SETTINGS), strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]
        assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=2e-5)


def test_options_that_need_all_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = torch_engine([model(PRE_NORM, MANY)])
    monkeypatch.setitem(constraints.BY_OPTION, "prune_gap", lambda value: None)
    for more, name in (
        ({"datastore": "d"}, "--datastore"),
        ({"lm_path": "m"}, "--lm-path"),
        ({"prune_gap": 1}, "--prune-gap"),
    ):
        with pytest.raises(UserError, match=f"{name} cannot be combined with the shortlists of the model"):
            engine.check(replace(SETTINGS, more=more))
    monkeypatch.undo()
    # Options that look at hypotheses alone.
    settings = replace(SETTINGS, more={"length_penalty": "gnmt", "beam_stop": "optimal", "max_len_ratio": 1.5})
    together = engine.search(SOURCES[:3], settings)
    for source, found in zip(SOURCES, together):
        (alone,) = engine.search([source], settings)
        assert [each.tokens for each in alone] == [each.tokens for each in found]
    assert together != engine.search(SOURCES[:3], SETTINGS)


@pytest.mark.parametrize("given", [{"adaptive_softmax_cutoff": "8,16"}])
def test_a_model_whose_output_layer_is_another(given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"^--shortlist cannot be used: the output layer is not a linear map"):
        torch_engine([model(given, MANY)])


def test_a_tiny_list_has_fewer_types_than_the_beam() -> None:
    lists = Shortlist(np.array([5]), np.full((304, 1), 2), 304)
    net, settings = model(PRE_NORM, MANY), replace(SETTINGS, beam=9, nbest=9)
    found = torch_engine([net], lists).search(SOURCES, settings)
    other = onnx_engine(net, PRE_NORM, lists=lists).search(SOURCES, settings)
    for one, two in zip(found, other, strict=True):
        assert len(one) == 9
        assert [each.tokens for each in one] == [each.tokens for each in two]
        assert {token for each in one for token in each.tokens} <= {MANY[5], "<unk>"}
