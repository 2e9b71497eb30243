"""Inspection: its numbers against sublayers composed here and autograd, what it prints and draws, and its command."""

from __future__ import annotations

import base64
import io
import json
import math
import random
import re
import sys
from argparse import Namespace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fairseq import options as fairseq_options
from fairseq import tasks
from fairseq.data import indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from models import EXAMPLE, PLAIN, batch, build, build_stock, dictionary, scramble
from PIL import Image
from torch import Tensor

import deepnmt.inspection
from deepnmt.errors import UserError
from deepnmt.inspection import (
    Report,
    Sublayer,
    cli,
    inspect_checkpoint,
    inspect_model,
    inspect_recipe,
    page,
    read_json,
    summary,
    table,
    write_json,
)

PAD, EOS = 1, 2


class CrossEntropy(torch.nn.Module):
    """As fairseq's, which turns to single precision."""

    def forward(self, model: Any, batch: dict[str, Any]) -> tuple[Tensor, int, dict[str, Any]]:
        logits = model(**batch["net_input"])[0].flatten(0, 1)
        loss = F.cross_entropy(logits, batch["target"].flatten(), ignore_index=PAD, reduction="sum")
        return loss, batch["ntokens"], {}


CRITERION = CrossEntropy()
NAMES = {"encoder": ["self_attn", "final"], "decoder": ["self_attn", "encoder_attn", "final"]}
MEASURED = ("gradient_norm", "error_norm", "activation_variance", "branch_share")


def sample(net_input: dict[str, Tensor]) -> dict[str, Any]:
    """A batch of fairseq's: the target is the decoder's input, shifted back."""
    inputs = net_input["prev_output_tokens"]
    target = torch.cat([inputs[:, 1:], torch.full_like(inputs[:, :1], PAD)], dim=1)
    target[range(len(target)), inputs.ne(PAD).sum(dim=1) - 1] = EOS
    return {"net_input": net_input, "target": target, "ntokens": int(target.ne(PAD).sum())}


# Two batches of different sizes, both with padding on both sides.
BATCHES = [sample(EXAMPLE), sample(batch([[5], [6, 7, 8], [9, 9, 9, 9]], [[11, 12, 13], [14], [15, 16]]))]


# The reference: a model's sublayers, composed here by equations (1) to (6) and (14).


def deepnorm(stack: str, encoder: int = 3, decoder: int = 3) -> float:
    return 0.81 * (encoder**4 * decoder) ** (1 / 16) if stack == "encoder" else (3 * decoder) ** (1 / 4)


def reference_layer(
    layer: Any, stack: str, norm: str, scale: str, x: Tensor, functions: dict[str, Any], seen: list[Any]
) -> Tensor:
    start = x
    for name, function in functions.items():
        layer_norm = getattr(layer, f"{name}_layer_norm")
        branch = function(layer_norm(x) if norm == "pre" else x)
        if scale == "deepnorm":
            x = deepnorm(stack) * x
        elif scale == "admin":
            x = getattr(layer, f"{name}_residual").weight * x
        scaled, x = x, x + branch
        if norm == "b2t" and name == "final":
            x = x + start
        if norm in ("post", "b2t"):
            x = layer_norm(x)
        seen.append((name, scaled, branch, x))
    return x


def reference_stack(
    model: Any, stack: str, norm: str, scale: str, x: Tensor, functions: Any, seen: list[Any]
) -> Tensor:
    part = getattr(model, stack)
    history = getattr(part, "history", None)
    outputs = [x]
    for index, layer in enumerate(part.layers):
        x = outputs[-1]
        if history is not None:
            weights = history.weight[index, : index + 1]
            if norm == "pre":
                terms = [y if k == 0 else history.layer_norms[k - 1](y) for k, y in enumerate(outputs)]
                x = sum(w * y for w, y in zip(weights, terms))
            else:
                x = sum(w * y for w, y in zip(weights, outputs))
                x = x if index == 0 else history.layer_norms[index - 1](x)
        outputs.append(reference_layer(layer, stack, norm, scale, x, functions(layer), seen))
    if history is not None:
        terms = [y if k == 0 or norm != "pre" else history.layer_norms[k - 1](y) for k, y in enumerate(outputs)]
        x = sum(w * y for w, y in zip(history.weight[len(part.layers)], terms))
        x = x if norm == "pre" else history.layer_norms[-1](x)
    else:
        x = outputs[-1]
    return part.layer_norm(x) if norm == "pre" else x


def feed_forward(layer: Any) -> Any:
    return lambda y: layer.fc2(layer.fc1(y).relu())


def reference_batch(model: Any, norm: str, scale: str, batch: dict[str, Any]) -> tuple[Tensor, list[Any]]:
    """The loss divided by the target tokens; and (stack, sublayer, w x, F(x), x', B x T of real tokens), in order."""
    source, inputs = batch["net_input"]["src_tokens"], batch["net_input"]["prev_output_tokens"]
    padding = source.eq(PAD)
    x = model.encoder.forward_embedding(source)[0] * ~padding.unsqueeze(-1)
    encoder_seen: list[Any] = []

    def encoder_functions(layer: Any) -> dict[str, Any]:
        attend = lambda y: layer.self_attn(y, y, y, key_padding_mask=padding)[0]  # noqa: E731
        return {"self_attn": attend, "final": feed_forward(layer)}

    memory = reference_stack(model, "encoder", norm, scale, x.transpose(0, 1), encoder_functions, encoder_seen)

    decoder = model.decoder
    y = decoder.embed_scale * decoder.embed_tokens(inputs) + decoder.embed_positions(inputs)
    mask = torch.full((inputs.size(1), inputs.size(1)), -math.inf).triu(1).double()
    decoder_seen: list[Any] = []

    def decoder_functions(layer: Any) -> dict[str, Any]:
        attend = lambda z: layer.self_attn(z, z, z, key_padding_mask=inputs.eq(PAD), attn_mask=mask)[0]  # noqa: E731
        cross = lambda z: layer.encoder_attn(z, memory, memory, key_padding_mask=padding, static_kv=True)[0]  # noqa: E731
        return {"self_attn": attend, "encoder_attn": cross, "final": feed_forward(layer)}

    y = reference_stack(model, "decoder", norm, scale, y.transpose(0, 1), decoder_functions, decoder_seen)
    logits = decoder.output_projection(y.transpose(0, 1))
    target = batch["target"]
    loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD, reduction="sum") / batch["ntokens"]
    seen = [("encoder", *record, ~padding) for record in encoder_seen]
    return loss, [*seen, *(("decoder", *record, inputs.ne(PAD)) for record in decoder_seen)]


def variance(x: Tensor, real: Tensor) -> float:
    entries = x.transpose(0, 1)[real]
    return (entries - entries.mean()).square().mean().item()


def reference(model: Any, norm: str, scale: str) -> tuple[float, list[dict[str, Any]]]:
    """The loss, and of each sublayer what a report should say, over `BATCHES`."""
    rows: list[dict[str, Any]] = []
    losses = []
    for batch_number, each in enumerate(BATCHES):
        loss, seen = reference_batch(model, norm, scale, each)
        losses.append(loss.item())
        errors = torch.autograd.grad(loss, [record[4] for record in seen], retain_graph=True)
        for place, ((stack, name, scaled, branch, output, real), error) in enumerate(zip(seen, errors)):
            depth = place // 2 if stack == "encoder" else (place - 6) // 3
            layer = getattr(model, stack).layers[depth]
            if batch_number == 0:
                modules = [layer.fc1, layer.fc2] if name == "final" else [getattr(layer, name)]
                parameters = [parameter for module in modules for parameter in module.parameters()]
                rows.append({"stack": stack, "layer": depth + 1, "name": name, "parameters": parameters})
                rows[-1].update(gradient=0.0, square=0.0, variance=0.0, share=0.0)
            row = rows[place]
            gradients = torch.autograd.grad(loss, row["parameters"], retain_graph=True)
            row["gradient"] = row["gradient"] + torch.cat([gradient.flatten() for gradient in gradients]) / 2
            row["square"] += float(error.transpose(0, 1)[real].square().mean()) / 2
            row["variance"] += variance(output, real) / 2
            inner = variance(branch, real)
            row["share"] += inner / (variance(scaled, real) + inner) / 2
    return sum(losses) / 2, rows


def assert_report(report: Report, loss: float, rows: list[dict[str, Any]]) -> None:
    assert report.loss == pytest.approx(loss, rel=1e-10)
    assert [(s.stack, s.layer, s.name) for s in report.sublayers] == [
        (row["stack"], row["layer"], row["name"]) for row in rows
    ]
    for sublayer, row in zip(report.sublayers, rows):
        matrices = np.concatenate([p.detach().numpy().ravel() for p in row["parameters"] if p.dim() == 2])
        want = {
            "gradient_norm": float(row["gradient"].norm()),
            "error_norm": math.sqrt(row["square"]),
            "activation_variance": row["variance"],
            "branch_share": row["share"],
            "weight_std": matrices.std(),
            "weight_max": np.abs(matrices).max(),
            "weight_norm": math.sqrt((matrices**2).sum()),
        }
        for name, value in want.items():
            assert getattr(sublayer, name) == pytest.approx(value, rel=1e-8), (sublayer, name)


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
    with pytest.raises(UserError, match="needs layers of a Transformer, but the encoder has none"):
        inspect_model(model, CRITERION, BATCHES)


# Objects, JSON, text.


def made_up(label: str = "one", encoder: int = 2, factor: float = 1.0, dlcl: bool = True, **odd: Any) -> Report:
    """A report of round numbers; `odd` replaces some of encoder layer 1, self_attn."""
    sublayers = [
        Sublayer(stack, layer, name, 3.0 * layer * factor, 4.0 * layer * factor, 1.0, 0.25, 0.125, 0.5, 7.0)
        for stack, depth in (("encoder", encoder), ("decoder", 1))
        for layer in range(1, depth + 1)
        for name in NAMES[stack]
    ]
    sublayers[0] = Sublayer(**{**vars(sublayers[0]), **odd})
    matrix = [[1.0, 0.0, 0.0], [-0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]
    return Report(label, 4, 9.5, sublayers, {"encoder": matrix} if dlcl else {})


ODD = {"gradient_norm": math.inf, "error_norm": math.nan, "branch_share": None, "weight_max": -math.inf}


def refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} is not standard JSON")


def test_json_is_standard_and_brings_everything_back() -> None:
    report = made_up("NaN", **ODD)
    values = json.loads(report.to_json(), parse_constant=refuse_constant)
    first = values["sublayers"][0]
    assert [first[name] for name in ODD] == ["Infinity", "NaN", None, "-Infinity"]
    back = Report.from_json(report.to_json())
    assert math.isnan(back.sublayers[0].error_norm or 0)
    assert back.to_json() == report.to_json()
    assert (back.label, back.sublayers[1:], back.dlcl) == ("NaN", report.sublayers[1:], report.dlcl)
    assert back.sublayers[0].gradient_norm == math.inf
    assert Report.from_json(made_up().to_json()) == made_up()
    both = write_json([made_up(), made_up("two")], {"seed": "1"})
    assert read_json(both) == [made_up(), made_up("two")]
    assert json.loads(both)["about"] == {"seed": "1"}


def test_json_of_something_else_is_refused() -> None:
    for text in ("[]", '{"label": "a"}', "null", '{"label": "a", "sublayers": [{"x": 1}]}'):
        with pytest.raises(UserError, match="a report must be as deepnmt-inspect writes it, but is not"):
            Report.from_json(text)
    with pytest.raises(UserError, match="a report must be JSON, but is not"):
        Report.from_json("{")
    with pytest.raises(UserError, match="must have a list of reports, but has none"):
        read_json("{}")


def test_one_number_a_layer() -> None:
    report = made_up(**{**ODD, "gradient_norm": 4.0})
    assert report.by_layer("encoder", "gradient_norm") == [5.0, math.hypot(6, 6)]
    assert report.by_layer("encoder", "error_norm") == [4.0, 8.0]
    assert report.by_layer("encoder", "branch_share") == [0.25, 0.25]
    assert report.by_layer("decoder", "gradient_norm") == [pytest.approx(math.sqrt(27))]
    assert report.by_layer("decoder", "activation_variance") == [1.0]


def test_table_and_summary() -> None:
    lines = table(made_up(**ODD)).splitlines()
    assert lines[0] == "one: 2 encoder and 1 decoder layers, loss 9.5, batches 4"
    assert re.split(r"\s{2,}", lines[1])[:5] == ["stack", "layer", "name", "gradient norm", "error norm"]
    assert [line.split() for line in lines[2:4]] == [
        ["encoder", "1", "self_attn", "inf", "nan", "1", "-", "0.125", "-inf", "7"],
        ["encoder", "1", "final", "3", "4", "1", "0.25", "0.125", "0.5", "7"],
    ]
    assert lines[-4].startswith("encoder DLCL weights: row l")
    assert [line.split() for line in lines[-3:]] == [["1", "1"], ["2", "-0.5", "0.5"], ["3", "0.2", "0.3", "0.5"]]
    assert len(lines) == 2 + 7 + 1 + 4

    rows = [re.split(r"\s{2,}", line) for line in summary([made_up(), made_up("b", 3)]).splitlines()]
    assert rows[0][:4] == ["setting", "stack", "layers", "loss"]
    assert rows[1] == ["one", "encoder", "2", "9.5", "4.24", "8.49", "0.5", "4", "8", "0.5"]
    assert rows[2][:3] == ["one", "decoder", "1"]
    assert rows[3] == ["b", "encoder", "3", "9.5", "4.24", "12.7", "0.333", "4", "12", "0.333"]
    assert "nan" in summary([made_up(factor=0.0)])


# Pictures and page.


def colours(picture: bytes) -> set[str]:
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    return {f"#{r:02x}{g:02x}{b:02x}" for _, (r, g, b) in image.getcolors(1 << 24)}


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[place : place + 2], 16) for place in (1, 3, 5))


def test_pictures_show_every_setting() -> None:
    reports = [made_up(f"setting {i}", 5, i + 1.0, i == 1) for i in range(8)]
    drawn = page.pictures(reports)
    assert list(drawn) == [
        "gradient_norm.png",
        "error_norm.png",
        "activation_variance.png",
        "branch_share.png",
        f"dlcl_weights_setting_1_{b'setting 1'.hex()}.png",
    ]
    for name in list(drawn)[:2]:
        found = [rgb(colour) for colour in colours(drawn[name])]
        for wanted in page.COLOURS:
            # With a palette, colours are only nearly what they were.
            assert min(math.dist(rgb(wanted), other) for other in found) < 12, (name, wanted)
    assert sum(map(len, drawn.values())) < 200_000
    few = page.pictures(reports[:1])
    assert list(few) == list(drawn)[:4]
    assert colours(few["gradient_norm.png"]) != colours(drawn["gradient_norm.png"])


def test_lines_and_heat_map_have_the_numbers() -> None:
    reports = [made_up("a", 5, dlcl=False), made_up("b", 2), made_up("c", 2, 0.0, False)]
    quantity = page.QUANTITIES[0]
    figure = page.against_depth(reports, quantity)
    panels = {(p.get_xlabel(), i): p for i, p in enumerate(figure.axes)}
    assert [name for name, _ in panels] == ["encoder layer"] * 2 + ["decoder layer"] * 2
    shallow, deep = figure.axes[:2]
    assert (shallow.get_title(), deep.get_title()) == (
        "2 encoder and 1 decoder layers",
        "5 encoder and 1 decoder layers",
    )
    assert [line.get_label() for line in shallow.lines] == ["b", "c"]
    assert list(shallow.lines[0].get_xdata()) == [1, 2]
    assert list(shallow.lines[0].get_ydata()) == pytest.approx([math.sqrt(18), math.sqrt(72)])
    assert len(deep.lines[0].get_xdata()) == 5
    assert shallow.get_yscale() == "log"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "c"]

    (panel, bar) = page.heat_maps([made_up()]).axes
    shown = panel.images[0].get_array()
    assert np.ma.getmaskarray(shown).tolist() == [[False, True, True], [False, False, True], [False] * 3]
    assert shown.compressed().tolist() == [1.0, -0.5, 0.5, 0.2, 0.3, 0.5]
    assert panel.images[0].get_extent() == [-0.5, 2.5, 3.5, 0.5]
    assert (panel.images[0].norm.vmin, panel.images[0].norm.vmax) == (-1.0, 1.0)
    assert bar.get_ylabel() == "weight W[l, k]"


def test_numbers_that_are_none_or_not_finite_are_left_out() -> None:
    odd = made_up("odd", 2, 1.0, True, **ODD)
    nothing = Report("nothing", 1, math.nan, [Sublayer("decoder", 1, "final", *[None] * 4, 0.0, 0.0, 0.0)], {})
    infinite = Report("nan", 1, 1.0, odd.sublayers, {"encoder": [[math.nan]]})
    for figure in (page.against_depth([odd, nothing], page.QUANTITIES[0]), page.heat_maps([odd, infinite])):
        assert len(colours(page.png(figure, 256))) > 20
    values = page.against_depth([odd], page.QUANTITIES[0]).axes[0].lines[0].get_ydata()
    assert np.isnan(values[0])
    assert np.isfinite(values[1])


class Reader(HTMLParser):
    """Collects the text and the addresses of a page, and checks that its tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "data", "action", "srcset")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_page_is_self_contained() -> None:
    reports = [made_up("a<b>&", 2), made_up("plain", 3, dlcl=False, **ODD)]
    drawn = page.pictures(reports)
    text = page.page(reports, {"command": "deepnmt-inspect <x>", "date": "today"}, drawn)
    assert text.startswith("<!DOCTYPE html>")
    assert not re.search(r"https?:|//|@import|url\(", re.sub(r"base64,[A-Za-z0-9+/=]*", "", text))
    reader = Reader(text)
    assert reader.open == []
    assert len(reader.addresses) == len(drawn) == 5
    assert all(address.startswith("data:image/png;base64,") for address in reader.addresses)
    assert "script" not in reader.tags
    for wanted in ("a<b>&", "deepnmt-inspect <x>", "today", "inf", "Error norm against depth"):
        assert wanted in "\n".join(reader.texts)
    assert reader.tags.count("details") == 2
    assert reader.tags.count("td") == 10 * (7 + 9)


def test_names_of_pictures_differ_where_labels_do() -> None:
    assert page.dlcl_name("dlcl_48") == "dlcl_weights_dlcl_48.png"
    assert page.dlcl_name("a/b") != page.dlcl_name("a b") != page.dlcl_name("a_b")
    assert "/" not in page.dlcl_name("../a/b")


# Recipes, checkpoints, the command.

RECIPE = """
arch: dlcl_transformer
encoder-embed-dim: 16
decoder-embed-dim: 16
encoder-ffn-embed-dim: 24
decoder-ffn-embed-dim: 24
encoder-attention-heads: 4
decoder-attention-heads: 4
encoder-layers: 3
decoder-layers: 2
encoder-norm: pre
decoder-norm: pre
dropout: 0.2
share-all-embeddings: true
criterion: label_smoothed_cross_entropy
label-smoothing: 0.1
optimizer: adam
lr: 0.001
max-tokens: 60
num-workers: 0
seed: 5
checkpoint-activations: true
"""


def write_data(folder: Path, words: int = 20) -> Path:
    folder.mkdir()
    symbols = dictionary(words)
    generator = random.Random(3)
    for language in ("de", "en"):
        symbols.save(str(folder / f"dict.{language}.txt"))
        for split, shortest, sentences in (("train", 2, 40), ("long", 70, 3)):
            path = folder / f"{split}.de-en.{language}"
            builder = indexed_dataset.make_builder(f"{path}.bin", impl="mmap", vocab_size=len(symbols))
            for _ in range(sentences):
                length = generator.randrange(shortest, shortest + 7)
                tokens = [generator.randrange(4, 4 + words) for _ in range(length)]
                builder.add_item(torch.tensor([*tokens, EOS]))
            builder.finalize(f"{path}.idx")
    return folder


def configuration(recipe: str, data: Path) -> Any:
    """What fairseq-train would have, from the text of a recipe."""
    pairs = dict(line.split(": ") for line in recipe.split("\n") if line)
    arguments = [f"--{key}" if value == "true" else f"--{key}={value}" for key, value in pairs.items()]
    args = fairseq_options.parse_args_and_arch(fairseq_options.get_training_parser(), [str(data), *arguments])
    return convert_namespace_to_omegaconf(args)


class Toy(Namespace):
    data: Path
    recipe: Path
    checkpoint: Path
    model: Any


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Data, a recipe, and a checkpoint with random parameters as fairseq's trainer saves it."""
    folder = tmp_path_factory.mktemp("toy")
    data, recipe = write_data(folder / "data"), folder / "toy.yaml"
    recipe.write_text(RECIPE, encoding="utf-8")
    argv = sys.argv
    sys.argv = ["pytest"]
    cfg = configuration(RECIPE.replace("checkpoint-activations: true\n", ""), data)
    cfg.checkpoint.no_save_optimizer_state = True
    sys.argv = argv
    whole = tasks.setup_task(cfg.task)
    torch.manual_seed(9)
    model = whole.build_model(cfg.model)
    scramble(model)
    trainer = Trainer(cfg, whole, model, whole.build_criterion(cfg.criterion))
    trainer.lr_step_begin_epoch(1)
    trainer.save_checkpoint(str(folder / "best.pt"), {"train_iterator": {"epoch": 1}})
    return Toy(data=data, recipe=recipe, checkpoint=folder / "best.pt", model=model, cfg=cfg, task=whole)


def first_batches(toy: Toy, seed: int, count: int) -> list[Any]:
    """As fairseq's trainer asks for them."""
    whole = tasks.setup_task(toy.cfg.task)
    whole.load_dataset("train")
    iterator = whole.get_batch_iterator(
        whole.dataset("train"),
        max_tokens=60,
        max_positions=(1024, 1024),
        ignore_invalid_inputs=True,
        required_batch_size_multiple=8,
        seed=seed,
    ).next_epoch_itr(shuffle=True)
    return [next(iterator) for _ in range(count)]


def test_recipe_has_the_weights_batches_and_dropout_of_a_training(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest", "--user-dir", "untouched"])
    kept, state = sys.argv, torch.get_rng_state()
    report = inspect_recipe(toy.recipe, toy.data, batches=2, seed=11)
    assert sys.argv is kept
    assert torch.get_rng_state().equal(state)
    assert (report.label, report.batches, report.depths) == ("toy", 2, {"encoder": 3, "decoder": 2})

    torch.manual_seed(11)
    model = toy.task.build_model(toy.cfg.model)
    criterion = toy.task.build_criterion(toy.cfg.criterion)
    model.train()
    want = 0.0
    for update, each in enumerate(first_batches(toy, 11, 2)):
        torch.manual_seed(11 + update)
        loss, size, _ = criterion(model, each)
        want += loss.item() / size / 2
    assert report.loss == pytest.approx(want, rel=1e-6)
    weight = model.encoder.layers[0].self_attn
    matrices = [weight.q_proj.weight, weight.k_proj.weight, weight.v_proj.weight, weight.out_proj.weight]
    assert report.sublayers[0].weight_max == pytest.approx(max(m.abs().max().item() for m in matrices))


def test_checkpoint_is_measured_as_it_is(toy: Toy) -> None:
    report = inspect_checkpoint(toy.checkpoint, toy.data, "mine", batches=3, seed=2)
    criterion = toy.task.build_criterion(toy.cfg.criterion)
    assert report == inspect_model(toy.model, criterion, first_batches(toy, 2, 3), "mine", seed=2)


def test_every_batch_where_more_are_asked_for_than_there_are(toy: Toy) -> None:
    report = inspect_checkpoint(toy.checkpoint, toy.data, batches=1000)
    assert 3 < report.batches < 40
    with pytest.raises(UserError, match=r"the subset long must have sentences of at most \(60, 60\) tokens"):
        inspect_checkpoint(toy.checkpoint, toy.data, subset="long")


def test_fairseqs_architecture_as_a_recipe(toy: Toy, tmp_path: Path) -> None:
    path = tmp_path / "stock.yaml"
    path.write_text("arch: transformer_tiny\ncriterion: cross_entropy\nbatch-size: 8\n", encoding="utf-8")
    report = inspect_recipe(path, toy.data, batches=1, options={"encoder-layers": "3"})
    assert report.depths == {"encoder": 3, "decoder": 2}
    assert all(getattr(sublayer, name) > 0 for sublayer in report.sublayers for name in MEASURED)


def test_admin_is_profiled_before_it_is_measured(toy: Toy) -> None:
    post = {"encoder-norm": "post", "decoder-norm": "post", "encoder-groups": "none", "decoder-groups": "none"}
    post |= {"residual-scale": "admin", "dropout": "0"}
    before = inspect_recipe(toy.recipe, toy.data, options=post, batches=1)
    after = inspect_recipe(toy.recipe, toy.data, options={**post, "initializer": "admin"}, batches=1)
    # (14): w of a stack's first sublayer is 1, and of those that follow more than that.
    assert after.sublayers[0].branch_share == pytest.approx(before.sublayers[0].branch_share, rel=1e-6)
    for stack in ("encoder", "decoder"):
        shares = [[s.branch_share for s in report.sublayers if s.stack == stack] for report in (before, after)]
        assert all(later < plain for plain, later in list(zip(*shares))[2:])


def run(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> int:
    """The status of the command."""
    monkeypatch.setattr(sys, "argv", ["deepnmt-inspect", *map(str, arguments)])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_command(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: tmp_path / f"out.{name}" for name in ("json", "html")}
    status = run(
        monkeypatch, f"recipe={toy.recipe}", toy.checkpoint, "--data", toy.data, "--batches", 2, "--set",
        "encoder-norm=post", "--set", "decoder-norm=post", "--json", files["json"], "--html", files["html"],
        "--pictures", tmp_path / "new" / "pictures",
    )  # fmt: skip
    printed = capsys.readouterr()
    assert status == 0
    assert len(printed.err.splitlines()) == 2
    assert printed.err.startswith("1 of 2: recipe: 3 encoder and 2 decoder layers, loss ")
    reports = read_json(files["json"].read_text(encoding="utf-8"))
    assert [report.label for report in reports] == ["recipe", "best"]
    # Post-norm, as --set says: all variances are about 1, and in the checkpoint, pre-norm, they are not.
    variances = [[sublayer.activation_variance for sublayer in report.sublayers] for report in reports]
    assert variances[0] == pytest.approx([1.0] * 12, abs=0.05)
    assert max(variances[1]) > 1.1
    assert reports[1] == inspect_checkpoint(toy.checkpoint, toy.data, batches=2)
    assert printed.out == "\n\n".join([table(reports[0]), table(reports[1]), summary(reports)]) + "\n"
    about = json.loads(files["json"].read_text(encoding="utf-8"))["about"]
    assert about["command"].startswith("deepnmt-inspect recipe=")
    assert "torch" in about["versions"]
    text = files["html"].read_text(encoding="utf-8")
    assert all(part in text for part in ("recipe: 3 encoder", "best: 3 encoder", "--set decoder-norm=post"))
    pictures = {path.name: path.read_bytes() for path in (tmp_path / "new" / "pictures").iterdir()}
    assert len(pictures) == 6
    embedded = [base64.b64decode(address.partition(",")[2]) for address in Reader(text).addresses]
    assert sorted(embedded) == sorted(pictures.values())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "out.html", "out.json"]


def test_command_builds_recipes_at_several_depths(
    toy: Toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [toy.recipe, "--data", toy.data, "--batches", 1, "--encoder-layers", "1,4"]
    assert run(monkeypatch, *arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[-4:]] == [
        ["toy", "encoder", "1"], ["toy", "decoder", "2"], ["toy", "encoder", "4"], ["toy", "decoder", "2"],
    ]  # fmt: skip
    assert run(monkeypatch, *arguments, "--decoder-layers", "3,1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines[-4:]] == ["1", "3", "4", "1"]


def test_reader_that_stops_reading(toy: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:

        class Pipe(io.StringIO):
            def flush(self) -> None:
                raise BrokenPipeError

            def fileno(self) -> int:
                return file.fileno()

        monkeypatch.setattr(sys, "stdout", Pipe())
        cli.show("text")


# Words of the command line, to which --data DATA is added where they do not have it; and the message.
BAD: dict[str, tuple[str, str]] = {
    "no source": ("none.yaml", r"none\.yaml: SOURCE must be a recipe or a checkpoint, but there is no such file"),
    "other file": ("DATA/dict.de.txt", r"SOURCE must be a recipe \(\.yaml\) or a checkpoint \(\.pt\), but is neither"),
    "no architecture": ("base.yaml", r"base\.yaml: a recipe must name an architecture \(arch:\), but does not"),
    "no batch size": ("RECIPE --set max-tokens=", "a recipe must have max-tokens or batch-size, but has neither"),
    "not a recipe": ("list.yaml", r"list\.yaml:1: a recipe must be a mapping"),
    "truncated": ("cut.pt", r"cut\.pt: must be a whole fairseq checkpoint, but cannot be read"),
    "not a checkpoint": ("text.pt", r"text\.pt: must be a whole fairseq checkpoint"),
    "no data given": ("RECIPE", "the following arguments are required: --data"),
    "no data": ("RECIPE --data none", "none: data must be a folder made by fairseq-preprocess, but there is none"),
    "no dictionaries": ("RECIPE --data bare", r"bare: data must be .*, but it holds no dict\.\*\.txt"),
    "no languages": ("RECIPE --data mute", "mute: data must name its languages"),
    "other dictionary": ("PT --data other", "dictionary must have the 24 types of the checkpoint's"),
    "no subset": ("RECIPE --subset dev", "Dataset not found: dev"),
    "unknown option": ("RECIPE --frob", "unrecognized arguments: --frob"),
    "abbreviated": ("RECIPE --batch 2", "unrecognized arguments: --batch 2"),
    "no batches": ("RECIPE --batches 0", "argument --batches: must be at least 1, but is 0"),
    "batches in words": ("RECIPE --batches two", "argument --batches: must be at least 1, but is two"),
    "no depth": ("RECIPE --encoder-layers 6,0", "argument --encoder-layers: must be at least 1, but is 0"),
    "pairs": (
        "RECIPE --encoder-layers 1,2 --decoder-layers 1",
        "--decoder-layers must have as many numbers as --encoder-layers",
    ),
    "depth of a checkpoint": (
        "RECIPE PT --encoder-layers 6",
        r"--encoder-layers must come with recipes only, but .*best\.pt is a checkpoint",
    ),
    "depth twice": (
        "RECIPE --encoder-layers 6 --set encoder-layers=2",
        "--set encoder-layers and --encoder-layers exclude each other",
    ),
    "set without value": ("RECIPE --set dropout", "--set must be KEY=VALUE, but is 'dropout'"),
    "set unknown": ("RECIPE --set drop=1", "'drop' is not an option of fairseq-train"),
    "set wrong": ("RECIPE --set dropout=x", "argument --dropout: invalid float value: 'x'"),
    "set for none": ("PT --set dropout=1", "--set must come with a recipe, but no SOURCE is one"),
    "same label": ("RECIPE toy=PT", "labels must differ, but 'toy' names 2 sources: write LABEL=PATH"),
    "output a folder": ("RECIPE --json bare", "bare: must be a file to write, but is a folder"),
    "output nowhere": ("RECIPE --html no/a.html", "cannot write no/a.html: No such file or directory"),
    "output in a file": ("RECIPE --pictures text.pt/a", "cannot make folder text.pt/a: Not a directory"),
    "output twice": ("RECIPE --json x --html ./x", "x: must be a file of its own, but is given twice"),
    "output over a source": ("RECIPE --json RECIPE", r"toy\.yaml: must be a file of its own, but is given twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_nothing_is_written(
    case: str, toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line, message = BAD[case]
    (tmp_path / "base.yaml").write_text("max-tokens: 10\n", encoding="utf-8")
    (tmp_path / "list.yaml").write_text("- a\n", encoding="utf-8")
    (tmp_path / "cut.pt").write_bytes(toy.checkpoint.read_bytes()[:3000])
    (tmp_path / "text.pt").write_text("text", encoding="utf-8")
    (tmp_path / "bare").mkdir()
    (tmp_path / "mute").mkdir()
    dictionary(20).save(str(tmp_path / "mute" / "dict.de.txt"))
    if case == "other dictionary":
        write_data(tmp_path / "other", words=30)
    before = sorted(path.name for path in tmp_path.iterdir())
    recipe = toy.recipe.read_bytes()
    monkeypatch.chdir(tmp_path)
    if case.startswith("output"):
        for name in ("inspect_recipe", "inspect_checkpoint"):
            monkeypatch.setattr(cli, name, lambda *args, **kwargs: pytest.fail("measured before outputs were tried"))
    if case != "no data given" and "--data" not in line:
        line += " --data DATA"
    places = {"RECIPE": str(toy.recipe), "DATA": str(toy.data), "PT": str(toy.checkpoint)}
    words = [re.sub("RECIPE|DATA|PT", lambda found: places[found[0]], word) for word in line.split()]
    status = run(monkeypatch, *words)
    printed = capsys.readouterr()
    assert status == 2
    assert printed.out == ""
    assert re.fullmatch(rf"deepnmt-inspect: error: .*{message}.*\n", printed.err), printed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert toy.recipe.read_bytes() == recipe


def test_missing_matplotlib_is_said_before_anything_is_measured(
    toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("matplotlib.")] + ["matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "deepnmt.inspection.page")
    monkeypatch.delattr(deepnmt.inspection, "page")
    monkeypatch.setattr(cli, "measure", lambda arguments: pytest.fail("measured"))
    assert run(monkeypatch, toy.recipe, "--data", toy.data, "--html", tmp_path / "a.html") == 2
    assert capsys.readouterr().err == (
        "deepnmt-inspect: error: pictures and pages need matplotlib: pip install matplotlib\n"
    )


def test_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--help") == 0
    assert "LABEL=PATH" in capsys.readouterr().out
