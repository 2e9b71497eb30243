"""One stack's numbers, against the formulas."""

from __future__ import annotations

from typing import Any

import pytest
from support.models import SIZE, build

from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.stack import STACKS


def config(**options: Any) -> DLCLTransformerConfig:
    return DLCLTransformerConfig(**{**SIZE, **options})


def test_sizes() -> None:
    options = config(encoder_layers=5, decoder_embed_dim=24, decoder_attention_heads=2, decoder_groups="2")
    encoder, decoder = options.stack("encoder"), options.stack("decoder")
    assert (encoder.layers, encoder.width, encoder.heads, encoder.boundaries) == (5, 16, 4, (0, 1, 2, 3, 4, 5))
    assert (decoder.layers, decoder.width, decoder.heads, decoder.boundaries) == (3, 24, 2, (0, 2, 3))
    assert config(encoder_groups="none").stack("encoder").boundaries is None


@pytest.mark.parametrize(
    ("options", "sublayers"),
    [
        ({}, {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "encoder_attn", "final")}),
        ({"merged_attention": True}, {"encoder": ("self_attn", "final"), "decoder": ("encoder_attn", "final")}),
        ({"no_cross_attention": True}, {"encoder": ("self_attn", "final"), "decoder": ("self_attn", "final")}),
    ],
    ids=["usual", "merged", "no cross-attention"],
)
def test_sublayers_are_those_of_the_model(options: dict[str, Any], sublayers: dict[str, Any]) -> None:
    model = build(options)
    for stack in STACKS:
        assert config(**options).stack(stack).sublayers == sublayers[stack]
        names = {name for layer in getattr(model, stack).layers for name, _ in layer.named_children()}
        assert {name[: -len("_residual")] for name in names if name.endswith("_residual")} == set(sublayers[stack])


def test_oldest_output() -> None:
    assert [config().stack("encoder").oldest(row) for row in range(1, 5)] == [0, 0, 0, 0]
    assert [config(dlcl_window=2).stack("decoder").oldest(row) for row in range(1, 5)] == [0, 0, 1, 2]


def test_residual_scale() -> None:
    deep = config(residual_scale="deepnorm", encoder_norm="post", encoder_layers=6, decoder_layers=4)
    assert deep.stack("encoder").residual_scale == pytest.approx(0.81 * (6**4 * 4) ** 0.0625, rel=1e-12)
    assert deep.stack("decoder").residual_scale == pytest.approx(12**0.25, rel=1e-12)
    for name, trained in (("plain", False), ("admin", True)):
        options = config(residual_scale=name).stack("encoder")
        assert (options.residual_scale, options.residual_trained) == (1.0, trained)


def test_factors_at_inference() -> None:
    linear = config(encoder_skip=0.6, skip_scale="inference").stack("encoder")
    assert [f for layer in linear.inference_factors() for f in layer] == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])
    assert [len(layer) for layer in linear.inference_factors()] == [2, 2, 2]
    constant = config(decoder_skip=0.3, skip_schedule="constant", skip_scale="inference", merged_attention=True)
    assert constant.stack("decoder").inference_factors() == [(0.7, 0.7)] * 3
    assert config(encoder_skip=0.6).stack("encoder").inference_factors() == [(1.0, 1.0)] * 3
    assert constant.stack("encoder").inference_factors() == [(1.0, 1.0)] * 3
