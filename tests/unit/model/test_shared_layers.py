"""Stacks with one layer in several places, against models whose layers have equal weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from support.models import EXAMPLE, SIZE, build, incremental_logits, logits, task

from deepnmt.checkpoints.rewrite import rewritten
from deepnmt.checkpoints.state import CheckpointState
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel

SHARED: dict[str, Any] = {"encoder_share_layers": "0,1,0", "decoder_share_layers": "0,0,1"}
FIRST = {"encoder": [0, 1, 0], "decoder": [0, 0, 2]}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {"encoder_groups": "none", "decoder_groups": "none"},
    "dlcl": {},
    "ssru": {"decoder_self_attention": "ssru"},
    "relative": {"decoder_max_relative_length": 2, "encoder_max_relative_length": 2},
    "merged, two-sided": {"merged_attention": True, "two_sided": True},
    "recomputed": {"checkpoint_activations": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_equals_a_model_with_copied_weights_whose_gradients_are_added(kind: str) -> None:
    shared, copied = build({**SHARED, **KINDS[kind]}).train(), build(KINDS[kind]).train()
    copied.load_state_dict(shared.state_dict())
    for model in (shared, copied):
        (model(**EXAMPLE)[0].double() ** 2).sum().backward()
    torch.testing.assert_close(logits(shared.eval(), EXAMPLE), logits(copied.eval(), EXAMPLE), rtol=0, atol=0)
    for stack, first in FIRST.items():
        for position in set(first):
            names = [f"{stack}.layers.{place}." for place, each in enumerate(first) if each == position]
            for name, parameter in shared.named_parameters():
                if name.startswith(names[0]):
                    rest = name.removeprefix(names[0])
                    parts = [copied.get_parameter(f"{prefix}{rest}").grad for prefix in names]
                    torch.testing.assert_close(parameter.grad, sum(parts))


@pytest.mark.parametrize("kind", ["plain", "ssru", "relative", "merged, two-sided"])
def test_each_place_has_a_state_of_its_own(kind: str) -> None:
    model, real = build({**SHARED, **KINDS[kind]}), EXAMPLE["prev_output_tokens"].ne(1)
    stepwise, full = incremental_logits(model, EXAMPLE), logits(model, EXAMPLE)
    torch.testing.assert_close(stepwise[real], full[real], rtol=0, atol=1e-6)


def test_parameters_are_those_of_the_different_layers() -> None:
    plain, shared = build(KINDS["plain"]), build({**KINDS["plain"], **SHARED})
    counted = [sum(each.numel() for each in model.parameters()) for model in (plain, shared)]
    layers = [sum(each.numel() for each in stack.layers[0].parameters()) for stack in (plain.encoder, plain.decoder)]
    assert counted[0] - counted[1] == sum(layers)
    assert shared.state_dict().keys() == plain.state_dict().keys()


def test_ds_init_counts_the_first_place() -> None:
    options = {"encoder_layers": 4, "encoder_share_layers": "0,0,0,1", "initializer": "ds-init"}
    model = DLCLTransformerModel.build_model(DLCLTransformerConfig(**{**SIZE, **options}), task())
    for position, depth in ((0, 1), (1, 1), (3, 4)):
        matrix = model.encoder.layers[position].fc1.weight
        assert 0.9 < matrix.abs().max() * (depth * sum(matrix.shape) / 6) ** 0.5 <= 1


def test_growing_is_refused() -> None:
    for options, line in (
        ({"encoder_share_layers": "0,0,1"}, "cfg.model.encoder_share_layers must be none, but is 0,0,1"),
        ({"decoder_self_attention": "shared"}, "cfg.model.decoder_self_attention must not be shared, but is"),
    ):
        config = DLCLTransformerConfig(**{**SIZE, **options})
        cfg = {"model": {**dataclasses.asdict(config), "_name": "dlcl_transformer"}}
        state = {"cfg": cfg, "model": build(options).state_dict()}
        with pytest.raises(UserError, match=line):
            rewritten(CheckpointState(state), lambda state, config: (state, []))
