"""Checkpoints of small models as fairseq saves them, whole and faulty, without data on disk."""

from __future__ import annotations

import dataclasses
import functools
import signal
import sys
from pathlib import Path
from typing import Any, Callable

import pytest
import torch
from torch import Tensor

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from support.models import SIZE, build, task

DEPTH = {"encoder_layers": 4, "decoder_layers": 4}
STACKS = ("encoder", "decoder")


@functools.cache
def parameters(seed: int = 1, **given: Any) -> dict[str, Tensor]:
    return build({**DEPTH, **given}, seed=seed).float().state_dict()


def checkpoint(seed: int = 1, **given: Any) -> dict[str, Any]:
    """What fairseq saves of a model, whose parameters are all different."""
    config = DLCLTransformerConfig(**{**SIZE, **DEPTH, "dropout": 0.0, **given})
    return {
        "args": None,
        "cfg": {"model": {**dataclasses.asdict(config), "_name": "dlcl_transformer"}, "task": {"_name": "translation"}},
        "model": parameters(seed, **given),
        "criterion": None,
        "optimizer_history": [{"num_updates": 7, "lr_scheduler_state": {"best": None}}],
        "extra_state": {"train_iterator": {"epoch": 3, "iterations_in_epoch": 5}, "val_loss": 2.5},
    }


def config_of(state: dict[str, Any]) -> DLCLTransformerConfig:
    """The options of a checkpoint's model."""
    return DLCLTransformerConfig(**without(state["cfg"]["model"], "_name"))


def model_of(state: dict[str, Any], dtype: torch.dtype = torch.float32) -> DLCLTransformerModel:
    """The model that fairseq builds from a checkpoint's own options, with all its tensors and no other."""
    model = DLCLTransformerModel.build_model(config_of(state), task()).to(dtype)
    model.load_state_dict(state["model"], strict=True)
    return model.eval()


def load(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


def run_main(main: Callable[[], None], name: str, *words: object) -> None:
    """Run one of the package's commands in this process."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        main()


def without(state: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in keys}


def with_model_options(state: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {**state, "cfg": {**state["cfg"], "model": {**state["cfg"]["model"], **changed}}}


def with_tensors(state: dict[str, Any], keep: Callable[[str], bool]) -> dict[str, Any]:
    return {**state, "model": {name: tensor for name, tensor in state["model"].items() if keep(name)}}


def with_optimizer(state: dict[str, Any], groups: int) -> dict[str, Any]:
    return {**state, "last_optimizer_state": {"state": {}, "param_groups": [{"params": [0, 1]}] * groups}}


BAD_STATES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no-model": (lambda s: without(s, "model"), "{path}: must be a fairseq checkpoint, but holds no model"),
    "a-list": (lambda s: [1, 2], "{path}: must be a fairseq checkpoint, but holds no model"),
    "no-cfg": (
        lambda s: without(s, "cfg"), "the checkpoint must hold the options of its model (cfg.model), but does not",
    ),
    "no-options": (
        lambda s: {**s, "cfg": {}}, "the checkpoint must hold the options of its model (cfg.model), but does not",
    ),
    "stock": (
        lambda s: with_model_options(s, _name="transformer"),
        "the checkpoint must be one of dlcl_transformer, but is one of transformer",
    ),
    "unknown": (
        lambda s: with_model_options(s, _name="no_such_model"),
        "the checkpoint must be one of dlcl_transformer, but is one of no_such_model",
    ),
    "another-depth": (
        lambda s: with_model_options(s, decoder_layers=5),
        "the checkpoint must hold 5 decoder layers as its options say, but holds 4",
    ),
    "missing-history": (
        lambda s: with_tensors(s, lambda name: "history.weight" not in name),
        "the checkpoint must hold a history of --encoder-groups 3 as its options say, but holds none",
    ),
    "another-history": (
        lambda s: with_model_options(s, encoder_groups="4"),
        "the checkpoint must hold a history of --encoder-groups 4 as its options say, but holds one of 2 groups",
    ),
    "pruned": (
        lambda s: with_model_options(s, decoder_layers_to_keep="0,1,2,3"),
        "--decoder-layers-to-keep must not be set in the checkpoint, but is",
    ),
    "base-layers": (
        lambda s: with_model_options(s, base_layers=1), "--base-layers must be 0 in the checkpoint, but is 1",
    ),
    "two-groups-of-parameters": (
        lambda s: with_optimizer(s, 2), "the optimizer must have one group of parameters, but has 2",
    ),
    "no-update": (
        lambda s: {**with_optimizer(s, 1), "optimizer_history": [],
                   "cfg": {**s["cfg"], "lr_scheduler": {"_name": "inverse_sqrt_reset"}}},
        "the checkpoint must say at which update it was saved (optimizer_history), but does not",
    ),
}  # fmt: skip
