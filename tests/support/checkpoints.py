"""Checkpoints of small models as fairseq saves them, whole and faulty, without data on disk."""

from __future__ import annotations

import dataclasses
import functools
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from deepnmt import cli
from deepnmt.checkpoints.file import read
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
    if path.suffix == ".safetensors":
        return read(path)
    state: dict[str, Any] = torch.load(path, weights_only=True)
    return state


def run_main(main: Callable[[], None], name: str, *words: object) -> None:
    """Run one of the package's commands in this process."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        main()


def run_command(name: str, *words: object) -> None:
    """Run a subcommand in this process as `deepnmt` does: what a user can put right is a line and status 2."""
    run_main(lambda: cli.main([name, *map(str, words)]), f"deepnmt {name}")


def without(state: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in keys}


def with_model_options(state: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {**state, "cfg": {**state["cfg"], "model": {**state["cfg"]["model"], **changed}}}


def with_tensors(state: dict[str, Any], keep: Callable[[str], bool]) -> dict[str, Any]:
    return {**state, "model": {name: tensor for name, tensor in state["model"].items() if keep(name)}}


def with_schedule(state: dict[str, Any], **kept: Any) -> dict[str, Any]:
    """The checkpoint, with what its learning-rate schedule keeps."""
    return {**state, "optimizer_history": [{**state["optimizer_history"][-1], "lr_scheduler_state": kept}]}


def with_optimizer(state: dict[str, Any], groups: int) -> dict[str, Any]:
    return {**state, "last_optimizer_state": {"state": {}, "param_groups": [{"params": [0, 1]}] * groups}}


BAD_STATES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no-model": (
        lambda s: without(s, "model"), "{path}: model must be the model's tensors by their names, but is missing",
    ),
    "an-empty-model": (
        lambda s: {**s, "model": {}}, "{path}: model must be the model's tensors by their names, but is empty",
    ),
    "a-list": (lambda s: [1, 2], "{path}: must be a fairseq checkpoint, but is a list"),
    "numbers-for-tensors": (
        lambda s: {**s, "model": dict.fromkeys(["encoder.version", "decoder.version", "x"], 1.5)},
        "{path}: model.encoder.version must be a tensor, but is 1.5 (and 2 more like it)",
    ),
    "no-cfg": (lambda s: without(s, "cfg"), "{path}: cfg must be the options of the training, but is missing"),
    "cfg-a-text": (
        lambda s: {**s, "cfg": "model"}, "{path}: cfg must be the options of the training, but is a text",
    ),
    "no-options": (
        lambda s: {**s, "cfg": {"task": {"_name": "translation"}}},
        "{path}: cfg.model must be the options of the model, but is missing",
    ),
    "an-option-of-another-type": (
        lambda s: with_model_options(s, encoder_layers="four"),
        "{path}: cfg.model.encoder_layers must be a whole number below 2^31, but is 'four'",
    ),
    "an-unknown-choice": (
        lambda s: with_model_options(s, residual_scale="huge"),
        "{path}: cfg.model.residual_scale must be one of plain, deepnorm, admin, but is 'huge'",
    ),
    "an-option-out-of-range": (
        lambda s: with_model_options(s, dropout=1.5),
        "{path}: cfg.model: --dropout must be at least 0 and below 1, but is 1.5",
    ),
    "no-positions": (
        lambda s: with_model_options(s, max_source_positions=-1),
        "{path}: cfg.model: --max-source-positions must be from 1 to 1048576, but is -1",
    ),
    "options-of-no-model": (
        lambda s: with_model_options(s, adaptive_softmax_cutoff="5,99999"),
        "{path}: cfg.model must be the options of a model that can be built, but is not: "
        "cannot specify cutoff larger than vocab size",
    ),
    "a-number-for-the-criterion": (
        lambda s: {**s, "criterion": {"x": 1}},
        "{path}: criterion must be the criterion's tensors by their names, or missing, but is a dictionary",
    ),
    "stock": (
        lambda s: with_model_options(s, _name="transformer"),
        "{path}: cfg.model._name must be dlcl_transformer or one of its architectures, but is transformer",
    ),
    "unknown": (
        lambda s: with_model_options(s, _name="no_such_model"),
        "{path}: cfg.model._name must be dlcl_transformer or one of its architectures, but is no_such_model",
    ),
    "another-depth": (
        lambda s: with_model_options(s, decoder_layers=5),
        "{path}: model must hold 5 decoder layers, as cfg.model says, but holds 4",
    ),
    "a-thousand-times-as-deep": (
        lambda s: with_model_options(s, decoder_layers=9999),
        "{path}: model must hold 9999 decoder layers, as cfg.model says, but holds 4",
    ),
    "missing-history": (
        lambda s: with_tensors(s, lambda name: "history.weight" not in name),
        "{path}: model must hold a history of --encoder-groups 3, as cfg.model says, but holds none",
    ),
    "another-history": (
        lambda s: with_model_options(s, encoder_groups="4"),
        "{path}: model must hold a history of --encoder-groups 4, as cfg.model says, but holds one of 2 groups",
    ),
    "a-tensor-missing": (
        lambda s: with_tensors(s, lambda name: name != "encoder.layers.2.fc1.weight"),
        "{path}: model.encoder.layers.2.fc1.weight must be there, as cfg.model says, but is not",
    ),
    "a-table-missing": (
        lambda s: with_tensors(s, lambda name: name != "decoder.embed_tokens.weight"),
        "{path}: model.decoder.embed_tokens.weight must be a table, types x width, but is missing",
    ),
    "a-tensor-too-many": (
        lambda s: {**s, "model": {**s["model"], "encoder.extra": torch.zeros(2), "encoder.more": torch.zeros(2)}},
        "{path}: model.encoder.extra must be absent, as cfg.model says, but is not (and 1 more)",
    ),
    "another-shape": (
        lambda s: {**s, "model": {**s["model"], "decoder.layers.1.fc2.weight": torch.zeros(16, 23)}},
        "{path}: model.decoder.layers.1.fc2.weight must have the shape 16 x 24, as cfg.model says, but has 16 x 23",
    ),
    "a-number-for-a-table": (
        lambda s: {**s, "model": {**s["model"], "encoder.embed_tokens.weight": torch.zeros(())}},
        "{path}: model.encoder.embed_tokens.weight must be a table, types x width, but is a single number",
    ),
    "whole-numbers": (
        lambda s: {**s, "model": {**s["model"], "decoder.layers.1.fc1.bias": torch.zeros(24, dtype=torch.long)}},
        "{path}: model.decoder.layers.1.fc1.bias must be floating-point numbers, but is torch.int64",
    ),
    "nan": (
        lambda s: {**s, "model": {**s["model"], "decoder.layers.1.fc1.bias": torch.full((24,), float("nan"))}},
        "{path}: model.decoder.layers.1.fc1.bias must be finite numbers, but has NaN or infinity",
    ),
    "pruned": (
        lambda s: with_model_options(s, decoder_groups="none", decoder_layers_to_keep="0,1,2,3"),
        "{path}: cfg.model.decoder_layers_to_keep must not be set, but is",
    ),
    "base-layers": (
        lambda s: with_model_options(s, decoder_groups="none", base_layers=1),
        "{path}: cfg.model.base_layers must be 0, but is 1",
    ),
    "a-text-for-the-best-score": (
        lambda s: {**s, "extra_state": {"best": "x"}}, "{path}: extra_state.best must be the best score, but is a text",
    ),
    "no-count-of-patience": (
        lambda s: {**s, "extra_state": {"patience": 3}},
        "{path}: extra_state.patience must be the count of --patience, but is 3",
    ),
    "a-count-of-patience-without-runs": (
        lambda s: {**s, "extra_state": {"patience": {"best": 2.5}}},
        "{path}: extra_state.patience must have the best score and the runs since, but has others",
    ),
    "no-position": (
        lambda s: {**s, "extra_state": {"train_iterator": {"epoch": "three", "iterations_in_epoch": 0}}},
        "{path}: extra_state.train_iterator.epoch must be a number of at least 0, but is a text",
    ),
    "two-groups-of-parameters": (
        lambda s: with_optimizer(s, 2),
        "{path}: last_optimizer_state.param_groups must have one group, but has 2",
    ),
    "an-empty-optimizer": (
        lambda s: {**s, "last_optimizer_state": {}},
        "{path}: last_optimizer_state.param_groups must be a list of groups with their params, but is missing",
    ),
    "an-optimizer-without-groups": (
        lambda s: {**s, "last_optimizer_state": {"state": {}, "param_groups": []}},
        "{path}: last_optimizer_state.param_groups must be a list of groups with their params, but is empty",
    ),
    "a-text-for-a-moment": (
        lambda s: {**s, "last_optimizer_state": {"state": {0: {"exp_avg": "x"}}, "param_groups": [{"params": [0]}]}},
        "{path}: last_optimizer_state.state must be numbers and tensors of each parameter, by its number, but is a "
        "dictionary",
    ),
    "a-list-for-the-task": (
        lambda s: {**s, "task_state": [1]},
        "{path}: task_state must be the task's state, or missing, but is a list",
    ),
    "a-text-for-the-best-score-of-the-schedule": (
        lambda s: with_schedule(s, best="x"),
        "{path}: optimizer_history[-1].lr_scheduler_state.best must be the best score, but is a text",
    ),
    "a-text-for-a-schedules-epoch": (
        lambda s: with_schedule(s, last_epoch="x"),
        "{path}: optimizer_history[-1].lr_scheduler_state.last_epoch must be a number of epochs, but is a text",
    ),
    "texts-for-resets": (
        lambda s: with_schedule(s, resets=["x"]),
        "{path}: optimizer_history[-1].lr_scheduler_state.resets must be numbers of updates, but is a list",
    ),
    "no-update": (
        lambda s: {**with_optimizer(s, 1), "optimizer_history": [],
                   "cfg": {**s["cfg"], "lr_scheduler": {"_name": "inverse_sqrt_reset"}}},
        "{path}: optimizer_history must be a list of results, one per optimizer, but is empty",
    ),
}  # fmt: skip
