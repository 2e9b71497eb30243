"""Sublayer skipping against (15)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from support.models import EXAMPLE, PLAIN, PRE_NORM, build, incremental_logits, logits

from deepnmt.model.skipping import SublayerSkipping
from deepnmt.model.stack import SkippingOptions
from deepnmt.model.sublayers import sublayers_of

BOTH = {"encoder_skip": 0.5, "decoder_skip": 0.5}


def draws(options: SkippingOptions, updates: int, layers: int = 3, sublayers: int = 2, seed: int = 1) -> torch.Tensor:
    """Factors, updates x sublayers of the stack."""
    torch.manual_seed(seed)
    skipping = SublayerSkipping("encoder", layers, sublayers, options)
    rows = []
    for update in range(updates):
        skipping.set_num_updates(update)
        rows.append([factor for layer in skipping.draw() for factor in layer])
    return torch.tensor(rows)


@pytest.mark.parametrize("scale_training", [True, False])
@pytest.mark.parametrize("linear", [True, False])
def test_frequencies_and_factors(linear: bool, scale_training: bool) -> None:
    updates, rate = 20_000, 0.6
    factors = draws(SkippingOptions(rate, linear, scale_training), updates)
    for place in range(6):
        p = rate * (place + 1) / 6 if linear else rate
        column = factors[:, place]
        error = (p * (1 - p) / updates) ** 0.5
        assert abs((column == 0).double().mean().item() - p) < 4 * error
        kept = 1 / (1 - p) if scale_training else 1.0
        assert column[column != 0].unique().tolist() == pytest.approx([kept])
        if scale_training:
            assert abs(column.double().mean().item() - 1) < 4 * error * kept
    # Sublayers are drawn independently of one another, and updates too.
    skipped = (factors == 0).double()
    correlation = torch.corrcoef(torch.cat([skipped[1:], skipped[:-1]], dim=1).t())
    assert (correlation - torch.eye(12)).abs().max() < 0.04


@pytest.mark.parametrize("scale_training", [True, False])
def test_factors_at_inference(scale_training: bool) -> None:
    skipping = SublayerSkipping("decoder", 2, 3, SkippingOptions(0.3, True, scale_training)).eval()
    expected = [1.0 if scale_training else 1 - 0.3 * number / 6 for number in range(1, 7)]
    assert [factor for layer in skipping.draw() for factor in layer] == pytest.approx(expected)


def test_draw_depends_on_seed_update_and_stack_alone() -> None:
    options = SkippingOptions(0.5, False)
    first = draws(options, 50)
    torch.rand(100)
    assert draws(options, 50).equal(first)
    assert not draws(options, 50, seed=2).equal(first)
    torch.manual_seed(1)
    stacks = [SublayerSkipping(name, 40, 2, options) for name in ("encoder", "decoder")]
    assert stacks[0].draw() != stacks[1].draw()
    stacks[0].set_num_updates(3)
    torch.manual_seed(1)
    resumed = SublayerSkipping("encoder", 40, 2, options)
    assert resumed.draw() != stacks[0].draw()
    resumed.set_num_updates(3)
    assert resumed.draw() == stacks[0].draw()


@contextmanager
def forced(model: Any, encoder: list[float], decoder: list[float]) -> Iterator[None]:
    """Let the stacks draw these factors, a number for each sublayer."""
    kept = []
    for stack, factors in ((model.encoder, encoder), (model.decoder, decoder)):
        size = stack.skipping.sublayers
        layers = [tuple(factors[i : i + size]) for i in range(0, len(factors), size)]
        kept.append((stack.skipping, stack.skipping.draw))
        stack.skipping.draw = lambda layers=layers: layers
    yield
    for skipping, _ in kept:
        del skipping.draw


def set_branches(model: Any, factors: dict[str, list[float]]) -> None:
    """Multiply what each sublayer puts out by a factor, in its last matrix."""
    with torch.no_grad():
        for stack, numbers in factors.items():
            iterator = iter(numbers)
            for layer in getattr(model, stack).layers:
                for name in sublayers_of(layer):
                    last = layer.fc2 if name == "final" else getattr(layer, name).out_proj
                    factor = next(iterator)
                    last.weight.mul_(factor)
                    last.bias.mul_(factor)


@pytest.mark.parametrize("norm", ["post", "pre", "none", "b2t"])
@pytest.mark.parametrize("groups", ["none", "1", "2"])
@pytest.mark.parametrize("merge", [False, True], ids=["self-attention", "merged"])
def test_a_factor_multiplies_the_sublayers_output(norm: str, groups: str, merge: bool) -> None:
    options = {"encoder_norm": norm, "decoder_norm": norm, "merged_attention": merge}
    options.update(encoder_groups=groups, decoder_groups=groups)
    factors = {"encoder": [0, 1, 2, 0, 1, 0.5], "decoder": [1, 0, 0, 2, 0, 1] + ([] if merge else [1, 1, 0])}
    skipped = build({**options, **BOTH})
    scaled = build(options)
    scaled.load_state_dict(skipped.state_dict())
    set_branches(scaled, factors)
    with forced(skipped, **factors):
        torch.testing.assert_close(logits(skipped, EXAMPLE), logits(scaled, EXAMPLE), rtol=0, atol=1e-12)


def test_skipped_sublayers_are_not_computed_and_get_gradients_of_zero() -> None:
    model = build({**BOTH, **PRE_NORM}).train()
    called = set()
    for name, module in model.named_modules():
        if name.endswith(("self_attn", "encoder_attn", "fc1", "fc2", "_attn_layer_norm", "final_layer_norm")):
            module.register_forward_hook(lambda *_, name=name: called.add(name))
    with forced(model, [0, 1, 1, 0, 1, 1], [1, 0, 1, 1, 1, 0, 0, 1, 1]):
        model(**EXAMPLE)[0].pow(2).sum().backward()
    absent = ["encoder.layers.0.self_attn", "encoder.layers.1.fc1", "encoder.layers.1.fc2"]
    absent += ["encoder.layers.0.self_attn_layer_norm", "encoder.layers.1.final_layer_norm"]
    absent += ["decoder.layers.0.encoder_attn", "decoder.layers.1.fc1", "decoder.layers.2.self_attn"]
    assert not called & set(absent)
    assert {"encoder.layers.1.self_attn", "encoder.layers.0.fc1", "decoder.layers.0.self_attn"} <= called
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if name.rsplit(".", 1)[0].startswith(tuple(absent)):
            assert not parameter.grad.any(), name


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, [1, 0, 1]),
        ({"merged_attention": True}, [0, 1]),
        ({"cross_self_attention": True, "no_cross_attention": True}, [0, 1]),
        ({"cross_self_attention": True}, [0, 0, 1]),
    ],
    ids=["cross-attention", "merged", "cross-self-attention", "both"],
)
def test_encoder_gets_gradients_of_zero_where_no_layer_reads_it(options: dict[str, Any], kept: list[float]) -> None:
    model = build({**PLAIN, **BOTH, **options}).train()
    with forced(model, [1] * 6, kept * 3):
        model(**EXAMPLE)[0].pow(2).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if name.startswith("encoder.layers"):
            assert not parameter.grad.any(), name
    assert model.decoder.layers[0].fc1.weight.grad.any()


def test_gradients_are_those_of_the_kept_sublayers() -> None:
    factors = [0, 2, 1, 0, 1, 1], [1, 0, 1, 1, 1, 0, 0, 1, 1]
    gradients = []
    for frozen_too in (False, True):
        model = build({**BOTH, "checkpoint_activations": frozen_too}).train()
        with forced(model, *factors):
            model(**EXAMPLE)[0].pow(2).sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    torch.testing.assert_close(gradients[1], gradients[0])
    plain = build().train()
    set_branches(plain, {"encoder": [f or 1e-300 for f in factors[0]], "decoder": [f or 1e-300 for f in factors[1]]})
    plain(**EXAMPLE)[0].pow(2).sum().backward()
    for name, parameter in plain.named_parameters():
        if "layer_norm" in name or "embed" in name or "history" in name:
            torch.testing.assert_close(gradients[0][name], parameter.grad, msg=name)


@pytest.mark.parametrize("schedule", ["linear", "constant"])
@pytest.mark.parametrize("scale", ["training", "inference"])
def test_options_reach_the_stacks(schedule: str, scale: str) -> None:
    model = build({"encoder_skip": 0.4, "skip_schedule": schedule, "skip_scale": scale})
    assert model.decoder.skipping is None
    expected = [0.4 * n / 6 if schedule == "linear" else 0.4 for n in range(1, 7)]
    assert model.encoder.skipping.probabilities == pytest.approx(expected)
    assert model.encoder.skipping.options.scale_training == (scale == "training")
    assert len(build({"decoder_skip": 0.4}).decoder.skipping.probabilities) == 9
    assert len(build({"decoder_skip": 0.4, "merged_attention": True}).decoder.skipping.probabilities) == 6


def test_fairseqs_update_number_reaches_the_stacks() -> None:
    model = build({**PLAIN, **BOTH}).train()
    outputs = []
    for update in (1, 2, 1):
        model.set_num_updates(update)
        outputs.append(logits(model, EXAMPLE))
        assert model.encoder.skipping.update == model.decoder.skipping.update == update
    assert outputs[0].equal(outputs[2])
    assert not outputs[0].equal(outputs[1])


@pytest.mark.parametrize("scale", ["training", "inference"])
def test_incremental_decoding_equals_full_pass(scale: str) -> None:
    model = build({**BOTH, "skip_scale": scale, "merged_attention": scale == "inference"})
    real = EXAMPLE["prev_output_tokens"].ne(1)
    torch.testing.assert_close(
        incremental_logits(model, EXAMPLE)[real], logits(model, EXAMPLE)[real], rtol=1e-6, atol=2e-6
    )


def test_parameters_are_named_as_without_skipping() -> None:
    assert list(build(BOTH).state_dict()) == list(build().state_dict())
