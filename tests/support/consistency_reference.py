"""R-Drop and SimCut by equations (18) and (19), position by position, and models to compute them with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

import deepnmt.criterions  # noqa: F401  registers them
from deepnmt.criterions.r_drop import RDrop, RDropConfig
from deepnmt.criterions.simcut import SimCut, SimCutConfig
from support.models import batch, build, build_stock, scramble, task

PAD, EOS = 1, 2
SOURCES = [[5, 6, 7, 8, 9], [10, 11, 12], [5, 13]]
TARGETS = [[6, 7, 8, 9], [13, 14, 5, 6, 7, 8], [9]]
SMOOTHED: dict[str, Any] = {"label_smoothing": 0.1, "sentence_avg": False}
CONFIGS: dict[str, Any] = {"r_drop": RDropConfig, "simcut": SimCutConfig}
SHARED = {"share_all_embeddings": True}


def make(name: str, **more: Any) -> Any:
    return {"r_drop": RDrop, "simcut": SimCut}[name](task(), CONFIGS[name](**{**SMOOTHED, **more}))


def make_sample(extra_padding: int = 0) -> dict[str, Any]:
    inputs: dict[str, Any] = batch(SOURCES, TARGETS)
    longest = max(map(len, TARGETS)) + 1
    target = torch.tensor([[*t, EOS] + [PAD] * (longest - len(t) - 1) for t in TARGETS])
    for _ in range(extra_padding):
        column = torch.full((len(TARGETS), 1), PAD)
        inputs["src_tokens"] = torch.cat([column, inputs["src_tokens"]], dim=1)
        inputs["prev_output_tokens"] = torch.cat([inputs["prev_output_tokens"], column], dim=1)
        target = torch.cat([target, column], dim=1)
    return {"net_input": inputs, "target": target, "ntokens": sum(len(t) + 1 for t in TARGETS)}


def make_model(kind: str, **more: Any) -> Any:
    """In training mode, float64; dropout 0 unless given."""
    if kind == "ours":
        return build(more).train()
    model = build_stock({**more, **(SHARED if kind == "stock-shared" else {})})
    scramble(model)
    return model.double().train()


@contextmanager
def captured(model: Any) -> Iterator[list[Tensor]]:
    """The logits of every call of the model, which the criterion may project itself."""
    calls: list[Tensor] = []

    def note(module: Any, inputs: Any, options: dict[str, Any], output: Any) -> None:
        logits = output[0]
        calls.append(module.decoder.output_layer(logits) if options.get("features_only") else logits)

    handle = model.register_forward_hook(note, with_kwargs=True)
    try:
        yield calls
    finally:
        handle.remove()


def log_p(scores: Tensor) -> Tensor:
    return scores - scores.exp().sum().log()


def positions(target: Tensor, prefix: int = 0) -> list[tuple[int, int]]:
    """Those that count."""
    rows, columns = target.shape
    return [(b, t) for b in range(rows) for t in range(prefix, columns) if target[b, t] != PAD]


def nll(scores: Tensor, target: Tensor, epsilon: float, prefix: int = 0) -> Tensor:
    """The cross entropy with 1 - epsilon on the target and the rest spread evenly over the other types."""
    total = scores.new_zeros(())
    for b, t in positions(target, prefix):
        wanted = torch.full_like(scores[b, t], epsilon / (scores.size(-1) - 1))
        wanted[target[b, t]] = 1 - epsilon
        total = total - (wanted * log_p(scores[b, t])).sum()
    return total


def kl(first: Tensor, second: Tensor, target: Tensor, prefix: int = 0) -> Tensor:
    total = first.new_zeros(())
    for b, t in positions(target, prefix):
        p, q = log_p(first[b, t]), log_p(second[b, t])
        total = total + (p.exp() * (p - q)).sum()
    return total


def objective(name: str, scores: Tensor, target: Tensor, alpha: float, prefix: int = 0) -> Tensor:
    """(18) or (19) for the logits of the doubled batch."""
    first, second = scores.chunk(2)
    there, back = kl(first, second, target, prefix), kl(second, first, target, prefix)
    if name == "r_drop":
        both = nll(first, target, 0.1, prefix) + nll(second, target, 0.1, prefix)
        return both + alpha * (there + back) / 2
    return nll(first, target, 0.1, prefix) + alpha * there


def gradients(loss: Tensor, model: Any) -> list[Tensor]:
    parameters = [p for p in model.parameters() if p.requires_grad]
    return list(torch.autograd.grad(loss, parameters, retain_graph=True))


def same(ours: list[Tensor], expected: list[Tensor]) -> bool:
    return all(torch.allclose(a, b, rtol=1e-7, atol=1e-10) for a, b in zip(ours, expected))
