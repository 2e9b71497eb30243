"""Norm position and residuals: the layers of both stacks against (1) to (4), (14) and B2T, written out here."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.models import EXAMPLE, PLAIN, PRE_NORM, build, incremental_logits, logits
from torch import Tensor

from deepnmt.model.norm_position import NORM_POSITIONS, NormPosition

NORMS = ("post", "pre", "none", "b2t")
RESIDUALS = ("plain", "deepnorm", "admin")
VALID = [(norm, residual) for norm in NORMS for residual in RESIDUALS if residual == "plain" or norm in ("post", "b2t")]
# A position that the package does not have: one more row must be enough for it.
FIFTH = NormPosition("fifth", before=True, after=True, layer_input=True)
# (4) for 5 encoder and 2 decoder layers, computed by hand: 0.81 (5^4 2)^(1/16), (3 2)^(1/4)
DEEPNORM = {"encoder": 0.81 * 1250 ** (1 / 16), "decoder": 6 ** (1 / 4)}

State = dict[str, Tensor]


def layer_norm(state: State, name: str, x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    centred = centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
    return centred * state[f"{name}.weight"] + state[f"{name}.bias"]


def linear(state: State, name: str, x: Tensor) -> Tensor:
    return x @ state[f"{name}.weight"].t() + state[f"{name}.bias"]


def attention(state: State, name: str, x: Tensor, source: Tensor, masked: Tensor, heads: int = 4) -> Tensor:
    """Multi-head attention of T x B x C to S x B x C; `masked`, B x T x S, is true where nothing is seen."""
    q, k, v = (linear(state, f"{name}.{part}_proj", y) for part, y in (("q", x), ("k", source), ("v", source)))
    size = x.size(-1) // heads
    parts = []
    for head in range(heads):
        cut = slice(head * size, (head + 1) * size)
        scores = torch.einsum("tbd,sbd->bts", q[..., cut], k[..., cut]) / math.sqrt(size)
        parts.append(torch.einsum("bts,sbd->tbd", scores.masked_fill(masked, -math.inf).softmax(-1), v[..., cut]))
    return linear(state, f"{name}.out_proj", torch.cat(parts, -1))


def merged(state: State, name: str, x: Tensor, source: Tensor, masked: Tensor) -> Tensor:
    """(12) without padding among the targets."""
    mean = torch.tril(torch.ones(len(x), len(x), dtype=x.dtype)) / torch.arange(1.0, len(x) + 1).double().unsqueeze(1)
    own = torch.einsum("ts,sbc->tbc", mean, linear(state, f"{name}.v_proj", x))
    bias = state[f"{name}.out_proj.bias"]
    return attention(state, name, x, source, masked) + linear(state, f"{name}.out_proj", own) - bias


def feed_forward(state: State, name: str, x: Tensor) -> Tensor:
    return linear(state, f"{name}.fc2", linear(state, f"{name}.fc1", x).clamp(min=0))


def reference_stack(
    state: State, stack: str, depth: int, norm: str, residual: str, x: Tensor, functions: Any
) -> Tensor:
    """The output of a plain stack; `functions(layer)` are (name, function) of a layer's sublayers in order."""
    for index in range(depth):
        prefix = f"{stack}.layers.{index}"
        start = x
        sublayers = functions(prefix)
        for place, (name, function) in enumerate(sublayers):
            before = norm in ("pre", "fifth")
            branch = function(layer_norm(state, f"{prefix}.{name}_layer_norm", x) if before else x)
            factor: Any = 1.0
            if residual == "deepnorm":
                factor = DEEPNORM[stack]
            if residual == "admin":
                factor = state[f"{prefix}.{name}_residual.weight"]
            x = factor * x + branch
            if norm in ("b2t", "fifth") and place == len(sublayers) - 1:
                x = x + start
            if norm in ("post", "b2t", "fifth"):
                x = layer_norm(state, f"{prefix}.{name}_layer_norm", x)
    return layer_norm(state, f"{stack}.layer_norm", x) if norm in ("pre", "fifth") else x


@pytest.mark.parametrize("merge", [False, True], ids=["self-attention", "merged"])
@pytest.mark.parametrize(("norm", "residual"), [*VALID, ("fifth", "deepnorm")])
def test_stacks_equal_formula(norm: str, residual: str, merge: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NORM_POSITIONS, FIFTH.name, FIFTH)
    options = {"encoder_norm": norm, "decoder_norm": norm, "residual_scale": residual, "merged_attention": merge}
    model = build({**PLAIN, **options, "encoder_layers": 5, "decoder_layers": 2})
    state: State = dict(model.state_dict())
    tokens, targets = EXAMPLE["src_tokens"], EXAMPLE["prev_output_tokens"]
    padding = tokens.eq(1)

    with torch.no_grad():
        x = model.encoder.forward_embedding(tokens)[0].masked_fill(padding.unsqueeze(-1), 0).transpose(0, 1)
        unseen = padding.unsqueeze(1).expand(-1, tokens.size(1), -1)
        out = reference_stack(
            state,
            "encoder",
            5,
            norm,
            residual,
            x,
            lambda prefix: [
                ("self_attn", lambda y: attention(state, f"{prefix}.self_attn", y, y, unseen)),
                ("final", lambda y: feed_forward(state, prefix, y)),
            ],
        )
        encoded = model.encoder(tokens)
        torch.testing.assert_close(encoded["encoder_out"][0], out, rtol=0, atol=1e-12)

        decoder = model.decoder
        x = (4.0 * decoder.embed_tokens(targets) + decoder.embed_positions(targets)).transpose(0, 1)
        future = torch.ones(2, len(x), len(x)).triu(1).bool()  # padding follows the sentence, so this hides it too
        unseen = padding.unsqueeze(1).expand(-1, targets.size(1), -1)
        itself = ("self_attn", lambda prefix, y: attention(state, f"{prefix}.self_attn", y, y, future))
        cross = ("encoder_attn", lambda prefix, y: attention(state, f"{prefix}.encoder_attn", y, out, unseen))
        both = ("encoder_attn", lambda prefix, y: merged(state, f"{prefix}.encoder_attn", y, out, unseen))
        attentions = [both] if merge else [itself, cross]
        expected = reference_stack(
            state,
            "decoder",
            2,
            norm,
            residual,
            x,
            lambda prefix: [
                *((name, lambda y, function=function: function(prefix, y)) for name, function in attentions),
                ("final", lambda y: feed_forward(state, prefix, y)),
            ],
        )
        features = decoder.extract_features(targets, encoded)[0]
    real = targets.ne(1)
    # fairseq's positions are float32, which bounds the agreement.
    torch.testing.assert_close(features[real], expected.transpose(0, 1)[real], rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("connections", [PLAIN, {"encoder_groups": "2", "decoder_groups": "1"}], ids=["plain", "dlcl"])
@pytest.mark.parametrize("merge", [False, True], ids=["self-attention", "merged"])
@pytest.mark.parametrize(("norm", "residual"), VALID)
def test_incremental_decoding_equals_full_pass(
    norm: str, residual: str, merge: bool, connections: dict[str, Any]
) -> None:
    options = {"encoder_norm": norm, "decoder_norm": norm, "residual_scale": residual, "merged_attention": merge}
    model = build({**options, **connections})
    real = EXAMPLE["prev_output_tokens"].ne(1)
    torch.testing.assert_close(
        incremental_logits(model, EXAMPLE)[real], logits(model, EXAMPLE)[real], rtol=1e-6, atol=2e-6
    )


@pytest.mark.parametrize("norm", NORMS)
def test_no_more_norms_than_the_formula_has(norm: str) -> None:
    model = build({**PLAIN, "encoder_norm": norm, "decoder_norm": norm})
    norms = {name.removesuffix(".weight") for name in model.state_dict() if name.endswith("norm.weight")}
    inside = {
        *(f"encoder.layers.{i}.{name}_layer_norm" for i in range(3) for name in ("self_attn", "final")),
        *(f"decoder.layers.{i}.{name}_layer_norm" for i in range(3) for name in ("self_attn", "encoder_attn", "final")),
    }
    top = {"encoder.layer_norm", "decoder.layer_norm"}
    assert norms == {"post": inside, "b2t": inside, "pre": inside | top, "none": set()}[norm]


def test_fusion_keeps_the_norms_of_the_history_alone() -> None:
    model = build({"encoder_norm": "none", "decoder_norm": "none"})
    norms = [name for name in model.state_dict() if name.endswith("norm.weight") or "layer_norms" in name]
    assert norms == [
        f"{stack}.history.layer_norms.{i}.{kind}"
        for stack in ("encoder", "decoder")
        for i in range(3)
        for kind in ("weight", "bias")
    ]
    history, y = model.encoder.history, torch.randn(3, 2, 4, 16, dtype=torch.float64)
    past = history.start()
    for index in range(3):
        past.input(index, y[index])
    state = {f"history.{name}": tensor for name, tensor in history.state_dict().items()}
    z = [y[0], *(layer_norm(state, f"history.layer_norms.{k}", y[k + 1]) for k in range(2))]
    last = torch.randn(2, 4, 16, dtype=torch.float64)
    z.append(layer_norm(state, "history.layer_norms.2", last))
    expected = sum(history.weight[3, k] * z[k] for k in range(4))
    torch.testing.assert_close(past.finish(last), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("option", "norm"), [({}, "post"), (PRE_NORM, "pre")], ids=["post", "pre"])
def test_auto_follows_fairseqs_option(option: dict[str, bool], norm: str) -> None:
    expected = build({"encoder_norm": norm, "decoder_norm": norm})
    torch.testing.assert_close(logits(build(option), EXAMPLE), logits(expected, EXAMPLE), rtol=0, atol=0)


def test_the_stacks_may_differ() -> None:
    model = build({**PLAIN, "encoder_norm": "none", "decoder_norm": "b2t"})
    names = set(model.state_dict())
    assert "encoder.layers.0.final_layer_norm.weight" not in names
    assert "decoder.layers.0.final_layer_norm.weight" in names


def test_admins_vector_is_trained_and_starts_as_ones() -> None:
    model = build({"residual_scale": "admin"})
    model(**EXAMPLE)[0].pow(2).sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if name.endswith("residual.weight")}
    assert len(gradients) == 3 * 2 + 3 * 3
    assert all(gradient is not None and gradient.abs().min() > 0 for gradient in gradients.values())
