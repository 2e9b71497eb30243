"""Growth that would change the model's function is refused, and the advice of a refusal works."""

from __future__ import annotations

import dataclasses

import pytest
from support.models import SIZE
from support.preserved import Options, assert_preserved, both, checkpoint

from deepnmt.checkpoints.grow import Growth, grow
from deepnmt.checkpoints.plans import grown_layers
from deepnmt.checkpoints.preserving import preserve
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.norm_position import NormPosition

REFUSALS: dict[str, tuple[Options, dict[str, str], str, str]] = {
    "divided": (
        {"encoder_groups": "3"}, {}, "interleave",
        r"--encoder-groups must not divide a present group with --function-preserving, but is '3'; '0,6' does not",
    ),
    "divided-on-top": (
        {"encoder_groups": "3"}, {"encoder": "1"}, "stack",
        r"--encoder-groups must not divide a present group with --function-preserving, but is '1'; '0,3,6' does not",
    ),
    "window": (
        {"dlcl_window": 2}, {}, "interleave",
        r"--encoder-groups must be '0,2,4,6' with --function-preserving and --dlcl-window 2, which no longer reaches "
        r"the rows' inputs with '1'",
    ),
    "no-final-norm": (
        {"dlcl_freeze": True, **both("norm", "pre"), "no_decoder_final_norm": True}, {"decoder": "1"}, "stack",
        r"--function-preserving is not possible for the decoder: its history can leave no output unread \(window, "
        r"frozen weights or softmax\), and no layer norm follows it",
    ),
    **{
        name: (
            {name: value, **both("norm", "none")}, {}, "stack",
            r"--function-preserving is not possible for the encoder: its history can leave no output unread \(window, "
            r"frozen weights or softmax\), and no layer norm follows it",
        )
        for name, value in (("dlcl_window", 2), ("dlcl_freeze", True), ("dlcl_softmax", True))
    },
    "ssru": (
        {**both("groups", "none"), "decoder_self_attention": "ssru"}, {"decoder": "none"}, "stack",
        r"--function-preserving is not possible for the decoder: with --decoder-self-attention ssru no layer can pass "
        r"on its input and learn",
    ),
    "average-deepnorm": (
        {**both("groups", "none"), "decoder_self_attention": "average", "residual_scale": "deepnorm"},
        {"decoder": "none"}, "stack",
        r"--function-preserving is not possible for the decoder: the depth scales its branches, and "
        r"--decoder-self-attention average has no scale",
    ),
    "b2t-deepnorm": (
        {**both("norm", "b2t"), "residual_scale": "deepnorm", "decoder_layers": 1}, {}, "stack",
        # 0.81 (3^4 1)^(1/16) and 0.81 (6^4 1)^(1/16)
        r"--function-preserving is not possible for the encoder: DeepNorm's scale goes from 1\.066 to 1\.268, and B2T "
        r"adds the layer's input unscaled",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_refusals(case: tuple[Options, dict[str, str], str, str]) -> None:
    options, groups, strategy, message = case
    state = checkpoint(options)
    with pytest.raises(UserError, match=f"^{message}$"):
        grow(state, Growth(dict.fromkeys(["encoder", *groups], 6), groups, strategy, function_preserving=True))


@pytest.mark.parametrize(
    "row",
    [
        NormPosition("new", before=True, layer_input=True),
        NormPosition("new", layer_input=True),
        NormPosition("new", before=True, after=True),
        NormPosition("new", before=True, after=True, layer_input=True),
    ],
    ids=str,
)
def test_norm_positions_that_cannot_pass_on_what_they_read(row: NormPosition) -> None:
    """The rows that the package has can; a new one is refused rather than grown into another function."""
    old = dataclasses.replace(DLCLTransformerConfig(**SIZE).stack("encoder"), norm=row)
    new = dataclasses.replace(old, layers=6)
    message = "^--function-preserving is not possible for the encoder: with --encoder-norm new no layer can pass on"
    with pytest.raises(ValueError, match=message):
        preserve(old, new, grown_layers("stack", 3, 6), learns_rows=True, has_final_norm=True)


@pytest.mark.parametrize(
    ("options", "groups", "strategy"),
    [
        ({"encoder_groups": "3"}, "0,6", "interleave"),
        ({"encoder_groups": "3"}, "0,3,6", "stack"),
        ({"dlcl_window": 2}, "0,2,4,6", "interleave"),
        ({"dlcl_window": 2, **both("norm", "none")}, "0,2,4,6", "interleave"),
        ({"dlcl_window": 1, **both("norm", "pre")}, "1", "interleave"),
        ({"dlcl_window": 7, **both("norm", "none")}, "1", "stack"),
    ],
)
def test_what_a_refusal_advises_works(options: Options, groups: str, strategy: str) -> None:
    state = checkpoint(options)
    new, _ = grow(state, Growth({"encoder": 6}, {"encoder": groups}, strategy, function_preserving=True))
    assert_preserved(state, new)
