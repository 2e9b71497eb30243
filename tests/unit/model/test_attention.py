"""The attention of the CPU against the formula, and when it is fairseq's own."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from fairseq.modules import FairseqDropout, MultiheadAttention
from support.models import EXAMPLE, build
from torch import Tensor

from deepnmt.kernels import fast_path
from deepnmt.kernels import short_attention as kernel
from deepnmt.kernels.dropout import dropout_noise
from deepnmt.kernels.short_attention import SHORT
from deepnmt.model.attention import Attention
from deepnmt.model.fast_dropout import FastDropout

HEADS, SIZE, WIDTH, BATCH = 3, 4, 12, 2
QUERIES = 5


def made(cross: bool = False, dropout: float = 0.0, dtype: torch.dtype = torch.float64) -> Attention:
    torch.manual_seed(1)
    kind = {"encoder_decoder_attention": cross, "self_attention": not cross}
    width = 8 if cross else WIDTH
    attention = Attention(WIDTH, HEADS, kdim=width, vdim=width, dropout=dropout, **kind)
    for parameter in attention.parameters():
        parameter.data.normal_(std=0.5)
    if dropout:
        attention.dropout_module = FastDropout(dropout)
    return attention.to(dtype)


def inputs(
    cross: bool, dtype: torch.dtype = torch.float64, queries: int = QUERIES, keys: int = 7
) -> tuple[Tensor, Tensor]:
    torch.manual_seed(2)
    query = torch.randn(queries, BATCH, WIDTH, dtype=dtype, requires_grad=True)
    return query, torch.randn(keys, BATCH, 8, dtype=dtype, requires_grad=True) if cross else query


def masks(keys: int, padding: bool, causal: bool, queries: int = QUERIES) -> dict[str, Tensor | None]:
    padded = torch.zeros(BATCH, keys, dtype=torch.bool)
    padded[1, -2:] = True
    future = torch.full((queries, keys), float("-inf"), dtype=torch.float64).triu(1)
    return {"key_padding_mask": padded if padding else None, "attn_mask": future if causal else None}


def formula(
    attention: Attention, query: Tensor, key: Tensor, masked: dict[str, Tensor | None], noise: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Head by head and sentence by sentence; and the probabilities, H x B x T x S."""
    outputs, of_sentences = [], []
    for b in range(query.size(1)):
        heads, probabilities = [], []
        for h in range(HEADS):
            own = slice(h * SIZE, (h + 1) * SIZE)
            q, k, v = (
                x[:, b] @ linear.weight[own].T + linear.bias[own]
                for x, linear in ((query, attention.q_proj), (key, attention.k_proj), (key, attention.v_proj))
            )
            scores = q @ k.T / SIZE**0.5
            if masked["attn_mask"] is not None:
                scores = scores + masked["attn_mask"]
            if masked["key_padding_mask"] is not None:
                scores = scores.masked_fill(masked["key_padding_mask"][b], float("-inf"))
            exponentials = scores.exp()
            p = exponentials / exponentials.sum(1, keepdim=True)
            probabilities.append(p)
            heads.append((p if noise is None else p * noise[b * HEADS + h]) @ v)
        outputs.append(torch.cat(heads, 1) @ attention.out_proj.weight.T + attention.out_proj.bias)
        of_sentences.append(torch.stack(probabilities))
    return torch.stack(outputs, 1), torch.stack(of_sentences, 1)


def is_own(output: Tensor) -> bool:
    """Of the node of this package, and not of fairseq's or torch's functions."""
    return "_AttentionBackward" in type(output.grad_fn).__name__


def compared(output: Tensor, weights: Tensor | None, leaves: list[Tensor]) -> list[Tensor]:
    """The results, and the gradients of a sum that depends on every element."""
    total = (output.double() * torch.linspace(-1, 2, output.numel()).view_as(output)).sum()
    if weights is not None:
        total = total + (weights.double() * torch.linspace(3, -2, weights.numel()).view_as(weights)).sum()
    results = [output] if weights is None else [output, weights]
    return [*results, *torch.autograd.grad(total, leaves)]


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("need", ["nothing", "weights", "head weights"])
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize(
    "lengths", [(5, 7), (9, 15), (12, 9), (17, 16)], ids=lambda lengths: "x".join(map(str, lengths))
)
def test_equals_the_formula(
    cross: bool, padding: bool, causal: bool, need: str, dropout: float, lengths: tuple[int, int]
) -> None:
    attention = made(cross, dropout)
    query, key = inputs(cross, torch.float64, *lengths)
    masked = masks(len(key), padding, causal, len(query))
    leaves = [query, *([key] if cross else []), *attention.parameters()]

    torch.manual_seed(3)
    asked = {"need_weights": need == "weights", "need_head_weights": need == "head weights"}
    output, weights = attention(query, key, key, **asked, **masked)
    assert is_own(output)
    torch.manual_seed(3)
    noise = dropout_noise(query.new_empty(BATCH * HEADS, len(query), len(key)), dropout) if dropout else None
    expected, of_heads = formula(attention, query, key, masked, noise)
    all_weights = {"nothing": None, "weights": of_heads.mean(0), "head weights": of_heads}[need]
    torch.testing.assert_close(compared(output, weights, leaves), compared(expected, all_weights, leaves))


@pytest.mark.parametrize("module", [FastDropout, FairseqDropout])
def test_evaluation_drops_nothing(module: Any) -> None:
    attention = made(True)
    attention.dropout_module = module(0.9)
    query, key = inputs(True, torch.float64, 6, 10)
    masked = masks(10, padding=True, causal=False, queries=6)
    output, weights = attention.eval()(query, key, key, static_kv=True, **masked)
    assert is_own(output)
    expected, of_heads = formula(attention, query, key, masked)
    torch.testing.assert_close([output, weights], [expected, of_heads.mean(0)])


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
@pytest.mark.parametrize("keys", [3, 10])
def test_gradients_by_differences(cross: bool, keys: int) -> None:
    attention = made(cross)
    query, key = inputs(cross, torch.float64, 3 if cross else keys, keys)
    masked = masks(len(key), padding=True, causal=not cross, queries=len(query))

    def outputs(query: Tensor, key: Tensor) -> Any:
        return attention(query, key if cross else query, key if cross else query, **masked)

    assert torch.autograd.gradcheck(outputs, (query, key))


def test_gradient_of_the_weights_alone() -> None:
    attention, (query, key) = made(True), inputs(True)
    masked = masks(len(key), padding=True, causal=False)
    weights = attention(query, key, key, **masked)[1]
    expected = formula(attention, query, key, masked)[1].mean(0)
    factor = torch.linspace(-1, 1, expected.numel()).view_as(expected)
    found = torch.autograd.grad((weights * factor).sum(), [query, key])
    torch.testing.assert_close(found, torch.autograd.grad((expected * factor).sum(), [query, key]))


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_float32_is_fairseqs(cross: bool) -> None:
    own = made(cross, dtype=torch.float32)
    stock = copy.deepcopy(own)
    stock.__class__ = MultiheadAttention
    query, key = inputs(cross, torch.float32)
    masked = masks(len(key), padding=True, causal=not cross)
    masked["attn_mask"] = None if masked["attn_mask"] is None else masked["attn_mask"].float()
    results = []
    for attention in (own, stock):
        output, weights = attention(query, key, key, static_kv=cross, need_weights=cross, **masked)
        leaves = [query, *([key] if cross else []), *attention.parameters()]
        results.append(compared(output, weights, leaves))
        assert is_own(output) == (attention is own)
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cross", [False, True], ids=["self", "cross"])
def test_hooks_see_the_same_and_dropout_is_the_same(cross: bool) -> None:
    attention, (query, key) = made(cross, dropout=0.4), inputs(cross)
    results, seen = [], []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(attention(query, key, key, need_weights=False)[0])
        attention.k_proj.register_forward_hook(lambda module, args, output: seen.append(output))
    # fairseq takes the softmax in float32.
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)
    assert [is_own(output) for output in results] == [True, False]
    torch.testing.assert_close(seen, [key @ attention.k_proj.weight.T + attention.k_proj.bias])


def test_long_sequences_are_torchs() -> None:
    attention = made(dtype=torch.float32)
    for length in (SHORT, SHORT + 1):
        query = torch.randn(length, 1, WIDTH)
        assert is_own(attention(query, query, query, need_weights=False)[0]) == (length == SHORT)


def change(attention: Attention, how: str) -> dict[str, Any]:
    """Make it, or its call, one that is left to fairseq."""
    if how == "dropout in evaluation":
        attention.dropout_module.apply_during_inference = True
        attention.eval()
    elif how == "torch's dropout":
        attention.dropout_module.p = 0.5
    elif how == "hook":
        attention.k_proj.register_forward_hook(lambda *_: None)
    elif how == "hook before":
        attention.out_proj.register_forward_pre_hook(lambda *_: None)
    elif how == "other map":
        attention.v_proj.__class__ = type("Other", (torch.nn.Linear,), {})
    elif how == "no check":
        attention.skip_embed_dim_check = True
    elif how == "zero":
        attention.add_zero_attn = True
    elif how == "half":
        attention.bfloat16()
    return {
        "state": {"incremental_state": {}},
        "scores": {"before_softmax": True, "static_kv": True},
        "boolean mask": {"attn_mask": torch.ones(QUERIES, QUERIES, dtype=torch.bool).triu(1), "need_weights": False},
    }.get(how, {})


OBSTACLES = {
    "dropout in evaluation": "dropout is retained in inference",
    "torch's dropout": "--attention-dropout is above 0 and --fast-dropout is not given",
    "hook": "a projection has hooks",
    "hook before": "a projection has hooks",
    "other map": "a projection is not a plain linear map with a bias",
    "no check": "the attention has a bias or a zero among its keys, or is pruned",
    "zero": "the attention has a bias or a zero among its keys, or is pruned",
    "half": "the model is in half precision",
    "state": "fairseq's search decodes position by position",
    "scores": "scores before the softmax are asked for",
    "boolean mask": "the attention mask is not a matrix of numbers",
    "autocast": "it is for the CPU, without autocast",
}


@pytest.mark.parametrize(("how", "reason"), OBSTACLES.items())
def test_what_is_left_to_fairseq(
    how: str, reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(fast_path, "logged", set())
    monkeypatch.setattr(kernel._Attention, "apply", lambda *_: pytest.fail("taken the fast way"))
    attention = made(dtype=torch.float32)
    options = change(attention, how)
    query = inputs(False, torch.bfloat16 if how == "half" else torch.float32)[0]
    with torch.autocast("cpu", enabled=how == "autocast"), caplog.at_level(logging.INFO):
        for _ in range(2):
            assert attention(query, query, query, **options)[0].shape[0] in (QUERIES, BATCH * HEADS)
    assert caplog.messages == [f"fast attention is not used: {reason}"]


def test_quantisation_noise_is_left_to_fairseq() -> None:
    """fairseq's own attention goes past the hooks that draw the noise; so does this one."""
    noisy = build(quant_noise_pq=0.5, quant_noise_pq_block_size=2)
    attention = noisy.encoder.layers[0].self_attn.train()
    query = torch.randn(QUERIES, BATCH, attention.embed_dim, dtype=torch.float64)
    assert attention.obstacle(query, query, query, {}) == "there is quantisation noise"
    before = attention.q_proj.weight.clone()
    output = attention(query, query, query, need_weights=False)[0]
    assert torch.equal(attention.q_proj.weight, before)
    assert torch.equal(output, attention(query, query, query, need_weights=False)[0])


def test_value_that_is_not_the_key() -> None:
    attention, (query, key) = made(True), inputs(True)
    assert not is_own(attention(query, key, key * 2)[0])


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_recomputed_layer_takes_the_same_way(dropout: float) -> None:
    results = []
    for more in ({}, {"checkpoint_activations": True}):
        model = build(fast_dropout=True, attention_dropout=dropout, **more).train()
        torch.manual_seed(7)
        output = model(**EXAMPLE)[0]
        output.pow(2).sum().backward()
        results.append([output.detach(), *(parameter.grad for parameter in model.parameters())])
    torch.testing.assert_close(results[1], results[0])


def test_all_attentions_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[object] = []
    stock = kernel._Attention.apply
    monkeypatch.setattr(kernel._Attention, "apply", lambda *x: (taken.append(x), stock(*x))[1])
    build().train()(**EXAMPLE)
    assert len(taken) == 3 + 2 * 3  # encoder layers; decoder layers, each twice
    build().eval()(**EXAMPLE)
    assert len(taken) == 18
