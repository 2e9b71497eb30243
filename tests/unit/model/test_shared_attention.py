"""Shared attention against equation (47), written out here with loops over heads and positions in float64."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.models import EXAMPLE, build, incremental_logits, logits
from torch import Tensor

from deepnmt.model.shared_attention import (
    FollowingSelfAttention,
    FollowingSourceAttention,
    LeadingSelfAttention,
    LeadingSourceAttention,
    SharedHeads,
)

HEADS, WIDTH, LENGTH, BATCH, SOURCE = 2, 6, 5, 2, 4
SIZE = WIDTH // HEADS
FUTURE = torch.full((LENGTH, LENGTH), -math.inf).double().triu(1)


def scrambled(module: Any) -> Any:
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return module.double().eval()


def project(linear: Any, x: Tensor) -> Tensor:
    return x @ linear.weight.t() + linear.bias


def weights_of(leader: Any, query: Tensor, keys: Tensor, causal: bool) -> Tensor:
    """The probabilities, B x H x T x S."""
    q, k = project(leader.q_proj, query), project(leader.k_proj, keys)
    found = torch.zeros(query.size(1), HEADS, len(query), len(keys)).double()
    for b in range(query.size(1)):
        for h in range(HEADS):
            head = slice(h * SIZE, (h + 1) * SIZE)
            for t in range(len(query)):
                seen = range(t + 1) if causal else range(len(keys))
                scores = torch.stack([q[t, b, head] @ k[s, b, head] / math.sqrt(SIZE) for s in seen])
                found[b, h, t, : len(scores)] = scores.exp() / scores.exp().sum()
    return found


def heads(weights: Tensor, values: Tensor) -> Tensor:
    """The sums of values, S x B x C, side by side: T x B x C."""
    found = torch.zeros(weights.size(2), values.size(1), WIDTH).double()
    for b in range(values.size(1)):
        for h in range(HEADS):
            head = slice(h * SIZE, (h + 1) * SIZE)
            found[:, b, head] = weights[b, h] @ values[:, b, head]
    return found


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(5)
    return tuple(torch.randn(n, BATCH, WIDTH).double() for n in (LENGTH, LENGTH, SOURCE))  # type: ignore[return-value]


@torch.no_grad()
def test_self_attention_is_the_formula() -> None:
    torch.manual_seed(3)
    first, second = (scrambled(LeadingSelfAttention(WIDTH, HEADS)) for _ in range(2))
    x, y, _ = inputs()
    shared = SharedHeads()
    found, _ = first(query=x, key=x, value=x, attn_mask=FUTURE, shared=shared)
    weights = weights_of(first, x, x, causal=True)
    torch.testing.assert_close(found, project(first.out_proj, heads(weights, project(first.v_proj, x))))
    following = FollowingSelfAttention(second)
    assert {name.partition(".")[0] for name, _ in following.named_parameters()} == {"v_proj", "out_proj"}
    found, _ = following(query=y, key=y, value=y, attn_mask=FUTURE, shared=shared)
    torch.testing.assert_close(found, project(second.out_proj, heads(weights, project(second.v_proj, y))))


@torch.no_grad()
def test_cross_attention_is_the_formula() -> None:
    torch.manual_seed(3)
    first, second = (scrambled(LeadingSourceAttention(WIDTH, HEADS, encoder_decoder_attention=True)) for _ in range(2))
    x, y, source = inputs()
    shared = SharedHeads()
    found, mean = first(query=x, key=source, value=source, shared=shared)
    weights = weights_of(first, x, source, causal=False)
    attended = heads(weights, project(first.v_proj, source))
    torch.testing.assert_close(found, project(first.out_proj, attended))
    torch.testing.assert_close(mean, weights.mean(1))
    following = FollowingSourceAttention(second)
    assert {name for name, _ in following.named_parameters()} == {"out_proj.weight", "out_proj.bias"}
    found, of_heads = following(query=y, key=source, value=source, shared=shared, need_head_weights=True)
    torch.testing.assert_close(found, project(second.out_proj, attended))
    torch.testing.assert_close(of_heads, weights.transpose(0, 1))


SHARED: dict[str, Any] = {"decoder_self_attention": "shared"}


def test_blocks_of_one_layer_are_the_plain_model() -> None:
    plain = build()
    for cross in (False, True):
        model = build(SHARED, shared_attention_blocks="1", shared_cross_attention=cross)
        model.load_state_dict(plain.state_dict())
        # fairseq's attention has softmaxes in float32.
        torch.testing.assert_close(logits(model, EXAMPLE), logits(plain, EXAMPLE), rtol=0, atol=1e-6)


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize(("blocks", "following"), [("2", {1}), ("3", {1, 2}), ("0,1,3", {2})], ids=str)
def test_parameters_of_a_block_and_decoding_as_in_training(blocks: str, following: set[int], cross: bool) -> None:
    model = build(SHARED, shared_attention_blocks=blocks, shared_cross_attention=cross)
    for index, layer in enumerate(model.decoder.layers):
        own = ("v_proj", "out_proj") if index in following else ("q_proj", "k_proj", "v_proj", "out_proj")
        assert {name for name, _ in layer.self_attn.named_children()} - {"dropout_module"} == set(own)
        own = ("out_proj",) if cross and index in following else ("q_proj", "k_proj", "v_proj", "out_proj")
        assert {name for name, _ in layer.encoder_attn.named_children()} - {"dropout_module"} == set(own)
    real = EXAMPLE["prev_output_tokens"].ne(1)
    torch.testing.assert_close(
        incremental_logits(model, EXAMPLE)[real], logits(model, EXAMPLE)[real], rtol=0, atol=1e-6
    )


def test_gradients_reach_the_leader_through_its_followers() -> None:
    model = build(SHARED, shared_attention_blocks="3", shared_cross_attention=True).train()
    leader = model.decoder.layers[0]
    with torch.no_grad():
        for attention in (leader.self_attn, leader.encoder_attn):
            attention.out_proj.weight.zero_()
    model(**EXAMPLE)[0].sum().backward()
    assert leader.self_attn.q_proj.weight.grad.abs().max() > 0
    assert leader.encoder_attn.q_proj.weight.grad.abs().max() > 0
    assert all(parameter.grad is not None for parameter in model.decoder.parameters())


def test_no_output_sees_a_later_input() -> None:
    model, tokens = build(SHARED, shared_attention_blocks="3"), EXAMPLE["prev_output_tokens"][1:]
    inputs = {name: each[1:] for name, each in EXAMPLE.items()}
    before = logits(model, inputs)
    for t in range(1, tokens.size(1)):
        changed = tokens.clone()
        changed[0, t] = 19
        after = logits(model, {**inputs, "prev_output_tokens": changed})
        assert torch.equal(after[0, :t], before[0, :t])
        assert not torch.equal(after[0, t], before[0, t])
