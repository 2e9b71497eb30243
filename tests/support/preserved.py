"""Growth that keeps a model's function: random models as checkpoints, and the distance of two of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import nn

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from support.models import EXAMPLE, SIZE, build, logits, task

STACKS = ("encoder", "decoder")
Options = dict[str, Any]


def both(name: str, value: Any) -> Options:
    return {f"{stack}_{name}": value for stack in STACKS}


def checkpoint(options: Options, seed: int = 1) -> dict[str, Any]:
    """A model in float64, whose parameters are all random, as a checkpoint."""
    config = DLCLTransformerConfig(**{**SIZE, "dropout": 0.0, **options})
    model = build(options, seed)
    return {"cfg": {"model": {**dataclasses.asdict(config), "_name": "dlcl_transformer"}}, "model": model.state_dict()}


def model_of(state: dict[str, Any]) -> nn.Module:
    """The model of a checkpoint, in float64."""
    values = {key: value for key, value in state["cfg"]["model"].items() if key != "_name"}
    model = DLCLTransformerModel.build_model(DLCLTransformerConfig(**values), task()).double()
    model.load_state_dict(state["model"], strict=True)
    return model.eval()


def difference(old: nn.Module, new: nn.Module) -> float:
    """The largest difference of the logits, divided by the largest logit."""
    before = logits(old, EXAMPLE)
    return float((logits(new, EXAMPLE) - before).abs().max() / before.abs().max())


def assert_preserved(old: dict[str, Any], new: dict[str, Any], single: float = 1e-5) -> None:
    """In float32 up to `single`; in float64 and without the epsilon of the layer norms up to rounding."""
    models = [model_of(state) for state in (old, new)]
    assert difference(*(model.float() for model in models)) < single
    for model in models:
        model.double()
        model.load_state_dict((old if model is models[0] else new)["model"])
        for norm in (module for module in model.modules() if isinstance(module, nn.LayerNorm)):
            norm.eps = 1e-14
    # A softmax leaves 2e-9 of an unread output.
    assert difference(*models) < 1e-7
