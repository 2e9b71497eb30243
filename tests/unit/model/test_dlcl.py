"""DLCL and group-dense connections against equations (5) and (6), written out here."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.models import EXAMPLE, PRE_NORM, build, logits
from torch import Tensor

from deepnmt.model.dlcl import HistoryOptions, LayerHistory, reference

STACKS = ("encoder", "decoder")
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "slices": {"dlcl_granularity": "4"},
    "vector": {"dlcl_granularity": "vector"},
    "one": {"dlcl_init": "one"},
    "window": {"dlcl_window": 2},
    "freeze": {"dlcl_freeze": True},
    "softmax": {"dlcl_softmax": True},
    "softmax-window-vector": {"dlcl_softmax": True, "dlcl_window": 2, "dlcl_granularity": "vector"},
    "embedding-norm": {"dlcl_embedding_norm": True},
}


def layer_norm(x: Tensor, norm: torch.nn.Module) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * norm.weight + norm.bias


def reference_stack(
    x: Tensor, layers: list[Any], starts: list[int], history: LayerHistory, pre_norm: bool, options: dict[str, Any]
) -> Tensor:
    """The output of a stack by (5) or (6), row by row and channel by channel; `starts` are the groups' first layers."""
    width = x.size(-1)
    norms: list[Any] = [history.embedding_norm, *history.layer_norms]
    outputs = [x]

    def combination(row: int) -> Tensor:
        slices = {"scalar": 1, "vector": width}.get(options.get("dlcl_granularity", "scalar"), 4)
        first = max(0, row - options["dlcl_window"]) if "dlcl_window" in options else 0
        weights = torch.stack([history.weight[row - 1, k] for k in range(first, row)])
        if "dlcl_softmax" in options:
            weights = weights.exp() / weights.exp().sum(0)
        total = torch.zeros_like(x)
        for channel in range(width):
            for k in range(first, row):
                value = outputs[k]
                if pre_norm and norms[k] is not None:
                    value = layer_norm(value, norms[k])
                total[..., channel] += weights[k - first, channel * slices // width] * value[..., channel]
        if not pre_norm and norms[row - 1] is not None:
            total = layer_norm(total, norms[row - 1])
        return total

    for group, start in enumerate(starts, 1):
        x = combination(group)
        for layer in layers[start : starts[group] if group < len(starts) else None]:
            x = layer(x)
        outputs.append(x)
    return combination(len(starts) + 1)


@pytest.mark.parametrize("norm", [{}, PRE_NORM], ids=["post", "pre"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize(("groups", "starts"), [("1", [0, 1, 2]), ("2", [0, 2]), ("3", [0]), ("0,1,3", [0, 1])])
def test_stack_equals_formula(groups: str, starts: list[int], options: dict[str, Any], norm: dict[str, bool]) -> None:
    model = build({"encoder_groups": groups, "decoder_groups": groups, **norm, **options})
    inputs = EXAMPLE
    padding = inputs["src_tokens"].eq(1)
    pre_norm = bool(norm)

    with torch.no_grad():
        x = model.encoder.forward_embedding(inputs["src_tokens"])[0].masked_fill(padding.unsqueeze(-1), 0)
        layers = [lambda x, layer=layer: layer(x, padding) for layer in model.encoder.layers]
        x = reference_stack(x.transpose(0, 1), layers, starts, model.encoder.history, pre_norm, options)
        expected = layer_norm(x, model.encoder.layer_norm) if pre_norm else x
        out = model.encoder(**{k: inputs[k] for k in ("src_tokens", "src_lengths")})["encoder_out"][0]
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)

        decoder, tokens = model.decoder, inputs["prev_output_tokens"]
        x = (4.0 * decoder.embed_tokens(tokens) + decoder.embed_positions(tokens)).transpose(0, 1)
        future = torch.full((x.size(0), x.size(0)), float("-inf"), dtype=x.dtype).triu(1)
        layers = [
            lambda x, layer=layer: layer(x, out, padding, self_attn_mask=future, self_attn_padding_mask=tokens.eq(1))[0]
            for layer in decoder.layers
        ]
        x = reference_stack(x, layers, starts, decoder.history, pre_norm, options)
        expected = layer_norm(x, decoder.layer_norm) if pre_norm else x
        features = decoder.extract_features(tokens, model.encoder(inputs["src_tokens"]))[0]
        # fairseq's positions are float32, which bounds the agreement.
        torch.testing.assert_close(features, expected.transpose(0, 1), rtol=0, atol=1e-6)


@pytest.mark.parametrize("norm", [{}, PRE_NORM], ids=["post", "pre"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_reference_is_what_is_computed(options: dict[str, Any], norm: dict[str, bool]) -> None:
    """`reference` is for readers; the formula that the model is held against is the one in this file."""
    history = build({"encoder_layers": 5, "encoder_groups": "2", **norm, **options}).encoder.history
    y = torch.randn(4, 3, 2, 16, dtype=torch.float64)
    past = history.start()
    read = [past.input(layer, y[group]) for layer, group in ((0, 0), (2, 1), (4, 2))]
    for groups, x in enumerate([*read, past.finish(y[3])], start=1):
        torch.testing.assert_close(reference(history, list(y[:groups])), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("init", "value"), [("mean", None), ("one", 1.0)])
@pytest.mark.parametrize("window", [0, 2])
def test_initial_weight(init: str, value: float | None, window: int) -> None:
    history = LayerHistory(8, (0, 1, 2, 3), True, HistoryOptions(slices=2, init=init, window=window))
    for row in range(1, 5):
        read = [k for k in range(row) if not window or k >= row - window]
        for k in range(4):
            expected = (value or 1 / len(read)) if k in read else 0.0
            assert history.weight[row - 1, k].tolist() == pytest.approx([expected] * 2)


@pytest.mark.parametrize("stack", STACKS)
def test_each_stack_is_switched_on_its_own(stack: str) -> None:
    other = STACKS[1 - STACKS.index(stack)]
    model = build({f"{stack}_groups": "1", f"{other}_groups": "none"})
    assert getattr(model, stack).history.weight.shape == (4, 4, 1)
    assert getattr(model, other).history is None


def test_frozen_weights_get_no_gradient() -> None:
    for freeze in (False, True):
        model = build(dlcl_freeze=freeze)
        model(**EXAMPLE)[0].sum().backward()
        for stack in (model.encoder, model.decoder):
            assert (stack.history.weight.grad is None) == freeze
            assert stack.layers[0].fc1.weight.grad is not None


def test_dropout_on_the_combination() -> None:
    history = LayerHistory(1000, (0, 1), True, HistoryOptions(dropout=0.25)).double()
    past, x = history.start(), torch.ones(4, 5, 1000, dtype=torch.float64)
    out = past.input(0, x)
    torch.testing.assert_close(out.unique(), torch.tensor([0.0, 1 / 0.75], dtype=torch.float64))
    assert (out == 0).double().mean().item() == pytest.approx(0.25, abs=0.02)
    history.eval()
    assert history.start().input(0, x).equal(x)


@pytest.mark.parametrize("norm", [{}, PRE_NORM], ids=["post", "pre"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_gradients(options: dict[str, Any], norm: dict[str, bool]) -> None:
    model = build({**norm, **options, "encoder_layers": 2})
    history = model.encoder.history
    layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(2)).double()

    def stack(x: Tensor, *parameters: Tensor) -> Tensor:
        past = history.start()
        for index, layer in enumerate(layers):
            x = layer(past.input(index, x)).tanh()
        return past.finish(x)

    x = torch.randn(2, 1, 16, dtype=torch.float64, requires_grad=True)
    parameters = [p for p in history.parameters() if p.requires_grad]
    assert torch.autograd.gradcheck(stack, (x, *parameters), fast_mode=True)


def test_dropped_layer_is_absent_from_later_sums() -> None:
    model = build({"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5, **PRE_NORM}).train()
    encoder, tokens = model.encoder, EXAMPLE["src_tokens"]
    padding = tokens.eq(1)
    dropped_before_kept = 0
    for seed in range(12):
        torch.manual_seed(seed)
        kept = (torch.empty(3).uniform_() > 0.5).tolist()
        dropped_before_kept += kept != sorted(kept, reverse=True)
        torch.manual_seed(seed)
        with torch.no_grad():
            out = encoder(tokens)["encoder_out"][0]
            x = encoder.forward_embedding(tokens)[0].masked_fill(padding.unsqueeze(-1), 0).transpose(0, 1)
            past = {0: x}
            for index, layer in enumerate(encoder.layers.children()):
                if kept[index]:
                    x = sum(encoder.history.weight[index, k] * past[k] for k in past)
                    past[index + 1] = layer_norm(layer(x, padding), encoder.history.layer_norms[index])
            x = sum(encoder.history.weight[3, k] * past[k] for k in past)
        torch.testing.assert_close(out, layer_norm(x, encoder.layer_norm), rtol=0, atol=1e-12)
    assert dropped_before_kept > 0
    assert logits(model, EXAMPLE).isfinite().all()


def test_window_with_all_outputs_dropped_reads_the_newest() -> None:
    history = LayerHistory(4, (0, 1, 2, 3), True, HistoryOptions(window=1)).double()
    past, x = history.start(), torch.randn(2, 1, 4, dtype=torch.float64)
    assert past.input(2, x).equal(x)
