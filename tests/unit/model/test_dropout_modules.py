"""Dropout of every kind of model: all of it is reached by --retain-dropout and --fast-dropout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fairseq.modules import FairseqDropout, MultiheadAttention
from support.models import EXAMPLE, build, logits
from torch import nn

from deepnmt.model.dlcl import LayerHistory
from deepnmt.model.fast_dropout import FastDropout
from deepnmt.model.shared_attention import FollowingSelfAttention

RATES = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1, "dlcl_dropout": 0.1}
# What is known by the name of fairseq's attention.
ATTENTIONS = (MultiheadAttention, FollowingSelfAttention)
MODELS: dict[str, dict[str, Any]] = {
    "plain": {"encoder_groups": "none", "decoder_groups": "none", "dlcl_dropout": 0.0},
    "connected": {},
    "relative": {"encoder_max_relative_length": 2, "decoder_max_relative_length": 2},
    "merged": {"merged_attention": True},
    "shared": {"decoder_self_attention": "shared", "shared_cross_attention": True},
    "ssru": {"decoder_self_attention": "ssru"},
    "two-sided": {"two_sided": True},
}


def places(model: nn.Module) -> list[FairseqDropout]:
    return [module for module in model.modules() if isinstance(module, FairseqDropout)]


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("fast", [False, True], ids=["fairseq's", "fast"])
def test_nothing_is_dropped_but_by_such_modules(kind: str, fast: bool) -> None:
    model = build({**RATES, **MODELS[kind]}, fast_dropout=fast).train()
    assert {type(module) for module in places(model)} == {FastDropout if fast else FairseqDropout}
    more = {"backward": True} if kind == "two-sided" else {}
    for module in places(model):
        module.p = 0.0
    state = torch.get_rng_state()
    model(**EXAMPLE, **more)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("fast", [False, True], ids=["fairseq's", "fast"])
@pytest.mark.parametrize(
    ("name", "holder"), [("MultiheadAttention", ATTENTIONS), ("LayerHistory", LayerHistory), (None, nn.Module)]
)
def test_what_is_retained(kind: str, fast: bool, name: str | None, holder: Any) -> None:
    model = build({**RATES, **MODELS[kind]}, fast_dropout=fast)
    model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=name and [name])
    expected = {child for parent in model.modules() if isinstance(parent, holder) for child in parent.children()}
    expected &= set(places(model))
    assert {module for module in places(model) if module.apply_during_inference} == expected
    assert expected or (kind, name) == ("plain", "LayerHistory")


def test_a_historys_dropout_is_retained() -> None:
    model = build(dlcl_dropout=0.5)
    assert torch.equal(logits(model, EXAMPLE), logits(model, EXAMPLE))
    model.make_generation_fast_(retain_dropout=True)
    assert not torch.equal(logits(model, EXAMPLE), logits(model, EXAMPLE))
