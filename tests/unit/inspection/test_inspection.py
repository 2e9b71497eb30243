"""Inspection: its numbers against sublayers composed by hand and autograd."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from support.models import EXAMPLE, PLAIN, batch, build, build_stock, scramble
from support.sublayer_reference import BATCHES, CRITERION, MEASURED, CrossEntropy, assert_report, reference, sample
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.inspection import (
    inspect_model,
)
from deepnmt.inspection import measure as measuring

CASES = {
    "pre": ("pre", "plain", PLAIN),
    "post": ("post", "plain", PLAIN),
    "none": ("none", "plain", PLAIN),
    "b2t": ("b2t", "plain", PLAIN),
    "deepnorm": ("post", "deepnorm", PLAIN),
    "admin": ("post", "admin", PLAIN),
    "dlcl-pre": ("pre", "plain", {}),
    "dlcl-post": ("post", "plain", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_sublayers_composed_by_hand(case: str) -> None:
    norm, scale, groups = CASES[case]
    model = build({"encoder_norm": norm, "decoder_norm": norm, "residual_scale": scale, **groups})
    report = inspect_model(model, CRITERION, BATCHES, case)
    assert (report.label, report.batches) == (case, 2)
    assert report.depths == {"encoder": 3, "decoder": 3}
    assert_report(report, *reference(model, norm, scale))


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_fairseqs_own_transformer(norm: str) -> None:
    before = {f"{stack}_normalize_before": norm == "pre" for stack in ("encoder", "decoder")}
    model = build_stock(before)
    scramble(model)
    model = model.double()
    report = inspect_model(model, CRITERION, BATCHES)
    assert_report(report, *reference(model, norm, "plain"))
    assert report.dlcl == {}
    # What was put into the layers is gone.
    assert all("residual_connection" not in vars(layer) for layer in model.encoder.layers)


def test_merged_attention_and_a_decoder_alone() -> None:
    report = inspect_model(build({"merged_attention": True}), CRITERION, BATCHES)
    decoder = [sublayer for sublayer in report.sublayers if sublayer.stack == "decoder"]
    assert [sublayer.name for sublayer in decoder] == ["encoder_attn", "final"] * 3
    assert all(getattr(sublayer, name) > 0 for sublayer in decoder for name in MEASURED)

    full = build(PLAIN)
    alone = torch.nn.Module()
    alone.decoder = full.decoder
    alone.set_num_updates = lambda number: None
    source = full.encoder(EXAMPLE["src_tokens"], EXAMPLE["src_lengths"])

    class Criterion(torch.nn.Module):
        def forward(self, model: Any, batch: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
            return model.decoder(EXAMPLE["prev_output_tokens"], encoder_out=source)[0].square().sum(), 1, {}

    report = inspect_model(alone, Criterion(), BATCHES[:1])
    assert report.depths == {"decoder": 3}


def test_sublayers_that_never_ran_have_no_numbers() -> None:
    model = build({"encoder_skip": 0.7, "skip_schedule": "constant", **PLAIN})
    model.encoder.skipping.seed = 4
    # Updates 0 and 1, one draw a sublayer.
    draws = [random.Random(f"4 {update} encoder") for update in (0, 1)]
    ran = [bool(sum(generator.random() >= 0.7 for generator in draws)) for _ in range(6)]
    assert 0 < sum(ran) < 6
    report = inspect_model(model, CRITERION, BATCHES)
    encoder = [sublayer for sublayer in report.sublayers if sublayer.stack == "encoder"]
    assert [sublayer.branch_share is not None for sublayer in encoder] == ran
    assert [sublayer.gradient_norm > 0 for sublayer in encoder] == ran


def test_dropped_layer_has_no_numbers_and_frozen_one_no_gradient() -> None:
    model = build({"encoder_layerdrop": 0.999, **PLAIN})
    for parameter in model.decoder.layers[1].fc1.parameters():
        parameter.requires_grad = False
    for parameter in model.decoder.layers[2].self_attn.parameters():
        parameter.requires_grad = False
    report = inspect_model(model, CRITERION, BATCHES)
    for sublayer in report.sublayers[:6]:
        assert [getattr(sublayer, name) for name in MEASURED] == [0.0, None, None, None]
        assert sublayer.weight_std > 0
    assert all(math.isnan(value) for value in report.by_layer("encoder", "error_norm"))
    assert [s.gradient_norm is None for s in report.sublayers if s.stack == "decoder"] == [False] * 6 + [True] + [
        False
    ] * 2


def test_dropout_is_that_of_training_with_the_seed() -> None:
    model = build({"dropout": 0.3, **PLAIN})
    want = 0.0
    gradient = torch.zeros_like(model.encoder.layers[0].fc1.weight)
    model.train()
    for update, each in enumerate(BATCHES):
        torch.manual_seed(7 + update)
        loss, size, _ = CRITERION(model, each)
        want += loss.item() / size / 2
        gradient += torch.autograd.grad(loss / size / 2, model.encoder.layers[0].fc1.weight)[0]
    for parameter in model.encoder.layers[0].parameters():
        parameter.requires_grad = parameter is model.encoder.layers[0].fc1.weight
    report = inspect_model(model, CRITERION, BATCHES, seed=7)
    assert report.loss == pytest.approx(want, rel=1e-12)
    assert report.sublayers[1].gradient_norm == pytest.approx(float(gradient.norm()), rel=1e-10)
    assert inspect_model(model, CRITERION, BATCHES, seed=8).loss != report.loss


@pytest.mark.parametrize("stock", [False, True])
def test_passes_in_evaluation_mode_are_not_measured(stock: bool) -> None:
    class Searching(CrossEntropy):
        """It looks for translations before it computes its loss, as the minimum-risk criterion does."""

        def forward(self, model: Any, batch: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
            model.eval()
            with torch.no_grad():
                model(**{**batch["net_input"], "prev_output_tokens": batch["net_input"]["prev_output_tokens"][:, :1]})
            model.train()
            return super().forward(model, batch)

    model = build_stock({}) if stock else build(PLAIN)
    assert inspect_model(model, Searching(), BATCHES) == inspect_model(model, CRITERION, BATCHES)


def test_model_and_random_state_are_left_as_they_were() -> None:
    model = build()
    model.encoder.train()
    kept = torch.ones_like(model.encoder.layers[0].fc1.weight)
    model.encoder.layers[0].fc1.weight.grad = kept
    before, state = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    CRITERION.eval()
    inspect_model(model, CRITERION, BATCHES)
    assert model.encoder.layers[0].fc1.weight.grad is kept
    assert bool((kept == 1).all())
    assert sum(parameter.grad is not None for parameter in model.parameters()) == 1
    assert model.encoder.layers[0].training
    assert not model.decoder.training
    assert not CRITERION.training
    assert torch.get_rng_state().equal(state)
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_single_precision_is_the_least_for_statistics() -> None:
    model = build(PLAIN).bfloat16()
    outputs: list[Tensor] = []
    model.encoder.layers[2].register_forward_hook(lambda layer, inputs, output: outputs.append(output))
    full = sample(batch([[5, 6, 7], [8, 9, 10]], [[5, 6], [7, 8]]))
    report = inspect_model(model, CRITERION, [full])
    want = outputs[0].detach().double()
    got = report.sublayers[5].activation_variance
    assert got == pytest.approx((want - want.mean()).square().mean().item(), rel=1e-5)


def test_dlcl_matrix_is_the_weight_as_applied() -> None:
    for options in ({}, {"dlcl_window": 2}, {"dlcl_softmax": True, "dlcl_window": 2}):
        model = build({"dlcl_granularity": "4", "encoder_groups": "0,1,3", "decoder_groups": "none", **options})
        (matrix,) = inspect_model(model, CRITERION, BATCHES).dlcl.values()
        weight = model.encoder.history.weight.detach().numpy()
        want = np.zeros((3, 3))
        for row in range(3):
            for k in range(row + 1):
                read = [j for j in range(row + 1) if j > row - 2 or not options]
                if k in read:
                    parts = weight[row, k]
                    if "dlcl_softmax" in options:
                        parts = np.exp(parts) / sum(np.exp(weight[row, j]) for j in read)
                    want[row, k] = parts.mean()
        assert np.array(matrix) == pytest.approx(want, rel=1e-6)


def test_what_cannot_be_inspected_is_refused() -> None:
    with pytest.raises(UserError, match="needs at least 1 batch, but has 0"):
        inspect_model(build(), CRITERION, [])
    with pytest.raises(UserError, match="needs --checkpoint-activations to be off, but it is on"):
        inspect_model(build({"checkpoint_activations": True}), CRITERION, BATCHES)
    with pytest.raises(UserError, match="needs an encoder or a decoder, but this is a Linear"):
        inspect_model(torch.nn.Linear(2, 2), CRITERION, BATCHES)
    model = build()
    model.encoder.layers[1] = torch.nn.Identity()
    with pytest.raises(UserError, match="needs layers of a Transformer, but encoder layer 2 is a Identity"):
        inspect_model(model, CRITERION, BATCHES)
    assert not any(module._forward_hooks for module in model.modules())
    model.encoder = torch.nn.Identity()
    with pytest.raises(UserError, match="needs layers of a Transformer, but the encoder lacks them"):
        inspect_model(model, CRITERION, BATCHES)


@pytest.mark.parametrize(("scale", "share"), [(0.0, 0.0), (1.0, 0.5), (math.nan, math.nan)])
def test_a_branch_without_variance_has_no_share(scale: float, share: float) -> None:
    probe = object.__new__(measuring._Probe)
    probe.stack, probe.real, probe.seen = torch.nn.Identity().train(), torch.ones(2, 1, dtype=torch.bool), {}
    x = scale * torch.tensor([[[1.0, -1.0]], [[2.0, -2.0]]])
    probe.see_share(0, "self_attn", x, x)
    assert probe.seen[0, "self_attn", "branch_share"] == pytest.approx([share], nan_ok=True)
