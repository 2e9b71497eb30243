"""What an inspection should say: a model's sublayers, composed here by equations (1) to (6) and (14)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from deepnmt.inspection import (
    Report,
)
from support.models import EXAMPLE, batch

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
    model.train()  # as it is inspected: fairseq's attention is less exact in evaluation
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
