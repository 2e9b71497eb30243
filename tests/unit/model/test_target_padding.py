"""Targets padded on either side: a sentence's logits and gradients are those that it has without padding."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from support.models import batch, build, build_stock
from support.slow import slow_but
from torch import Tensor, nn

from deepnmt.kernels import short_attention
from deepnmt.kernels.hidden_keys import may_blind, seen_keys

PAD = 1
KINDS: dict[str, dict[str, Any]] = {
    "Attention": {},
    "Relative": {"decoder_max_relative_length": 2, "encoder_max_relative_length": 2},
    "Merged": {"merged_attention": True},
    "Shared": {"decoder_self_attention": "shared", "shared_attention_blocks": "3", "shared_cross_attention": True},
    "Average": {"decoder_self_attention": "average", "average_attention_ffn": True},
    "SSRU": {"decoder_self_attention": "ssru"},
}
# The longer ones fill a vector register but for a few keys, the shorter ones do not come near.
SENTENCES = {
    "short": [([5, 6, 7], [6, 7, 8, 9, 10]), ([8], [11]), ([9, 10, 11, 12], [])],
    "padded to a register": [([5, 6, 7], [6, 7, 8, 9, 10, 11, 12, 13, 5]), ([8], [11, 12])],
}


def turned(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """A batch with the padding of its target on the left, as by --left-pad-target."""
    rows = [torch.cat([row[row.eq(PAD)], row[row.ne(PAD)]]) for row in inputs["prev_output_tokens"]]
    return {**inputs, "prev_output_tokens": torch.stack(rows)}


def results(model: nn.Module, batches: list[dict[str, Tensor]]) -> list[Tensor]:
    """The logits of all that is no padding, and the gradients of their sum, each with a factor of its own."""
    found = torch.cat([model(**each)[0][each["prev_output_tokens"].ne(PAD)] for each in batches])
    total = (found.double() * torch.linspace(-1, 2, found.numel(), dtype=torch.float64).view_as(found)).sum()
    return [found, *torch.autograd.grad(total, list(model.parameters()))]


@functools.cache
def alone(kind: str, length: str) -> list[Tensor]:
    """What each sentence by itself gives, in float64."""
    return results(build(KINDS[kind]).train(), [batch([source], [target]) for source, target in SENTENCES[length]])


@pytest.mark.parametrize("kind", slow_but(["Attention", "Relative", "Merged", "SSRU"], KINDS))
@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
@pytest.mark.parametrize("length", SENTENCES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_equals_each_sentence_alone(kind: str, left: bool, length: str, dtype: torch.dtype) -> None:
    inputs = batch(*map(list, zip(*SENTENCES[length])))
    inputs = turned(inputs) if left else inputs
    model, expected = build(KINDS[kind]).train().to(dtype), alone(kind, length)
    found = results(model, [inputs])
    if dtype == torch.float64:
        torch.testing.assert_close(found, expected)
    error = [(ours.double() - wanted).detach().norm() for ours, wanted in zip(found, expected)]
    allowed = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.1, torch.float16: 0.01}[dtype]
    assert float(torch.stack(error).norm()) < allowed * float(
        torch.cat([each.detach().flatten() for each in expected]).norm()
    )
    with torch.no_grad():
        assert model.eval()(**inputs)[0].isfinite().all()


@pytest.mark.parametrize("left", [False, True], ids=["right", "left"])
def test_equals_fairseqs_transformer(left: bool) -> None:
    inputs = batch(*map(list, zip(*SENTENCES["padded to a register"])))
    inputs = turned(inputs) if left else inputs
    ours, stock = build(encoder_groups="none", decoder_groups="none"), build_stock({}).double()
    stock.load_state_dict(ours.state_dict())
    # fairseq takes some softmaxes in float32.
    torch.testing.assert_close(results(ours.train(), [inputs]), results(stock.train(), [inputs]), rtol=1e-5, atol=1e-5)


def test_right_padding_costs_no_mask_of_each_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_attention, "seen_keys", lambda *_: pytest.fail("not needed"))
    build().train()(**batch(*map(list, zip(*SENTENCES["short"]))))


def test_which_queries_are_blind() -> None:
    future = torch.full((3, 3), -torch.inf).triu(1)
    padding = torch.tensor([[True, True, False], [False, False, True]])
    assert [may_blind(None, future), may_blind(padding, future), may_blind(padding[1:], future)] == [False, True, False]
    assert [may_blind(padding, None), may_blind(torch.ones(1, 3, dtype=torch.uint8), None)] == [False, True]
    seen = [[[1, 1, 1], [1, 1, 1], [0, 0, 1]], [[1, 0, 0], [1, 1, 0], [1, 1, 0]]]
    assert seen_keys(padding, future, torch.float32).eq(0).int().tolist() == seen
    assert seen_keys(padding, None, torch.float32).eq(0).int().tolist() == [[[0, 0, 1]], [[1, 1, 0]]]
    assert seen_keys(torch.ones(1, 2), None, torch.float32).tolist() == [[[0.0, 0.0]]]
