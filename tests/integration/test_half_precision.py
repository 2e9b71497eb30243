"""Half precision on the CPU agrees with float32: logits and gradients, for every connection and position option."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.models import batch, build
from torch import Tensor

PRE = {"encoder_norm": "pre", "decoder_norm": "pre"}
POST = {"encoder_norm": "post", "decoder_norm": "post"}
NONE = {"encoder_norm": "none", "decoder_norm": "none"}
RELATIVE = {"encoder_max_relative_length": 2, "decoder_max_relative_length": 3}
CASES: dict[str, dict[str, Any]] = {
    "plain-pre": {**PRE, "encoder_groups": "none", "decoder_groups": "none"},
    "plain-post": {**POST, "encoder_groups": "none", "decoder_groups": "none"},
    "dlcl-pre": PRE,
    "dlcl-post": POST,
    "dlcl-none": NONE,
    "group-dense": {**PRE, "encoder_groups": "2", "decoder_groups": "0,1,3"},
    "slices": {**PRE, "dlcl_granularity": "4"},
    "vector": {**POST, "dlcl_granularity": "vector"},
    "ones": {**POST, "dlcl_init": "one"},
    "window": {**PRE, "dlcl_window": 2},
    "frozen": {**PRE, "dlcl_freeze": True},
    "softmax": {**PRE, "dlcl_softmax": True},
    "embedding-norm": {**PRE, "dlcl_embedding_norm": True},
    "relative": {**PRE, **RELATIVE},
    "relative-keys": {**POST, **RELATIVE, "relative_positions": "keys"},
    "relative-alone": {**PRE, **RELATIVE, "no_token_positional_embeddings": True},
    "learned-positions": {**PRE, "encoder_learned_pos": True, "decoder_learned_pos": True},
    "merged": {**PRE, **RELATIVE, "decoder_max_relative_length": 0, "merged_attention": True},
    "b2t": {"encoder_norm": "b2t", "decoder_norm": "b2t"},
    "deepnorm": {**POST, "residual_scale": "deepnorm"},
    "admin": {**POST, "residual_scale": "admin"},
}
# A number is rounded by up to 2^-11 or 2^-8. So many of these roundings, as a share of the norm, may be lost: in the
# logits of three layers, in the gradient of a parameter, and in the output of 48 layers. Processors sum in different
# orders; most gradients lose 6 at the most, those of DLCL's weights, whose terms cancel, up to 15.
ROUNDING = {torch.float16: 2**-11, torch.bfloat16: 2**-8}
LOGITS, GRADIENTS, SUMS = 4, 20, 60
# Of left-padded sources and right-padded targets, so that every mask is used.
INPUTS = batch([[5, 6, 7, 8, 9, 10, 11], [10, 11, 12], [13]], [[6, 7, 8, 9], [13, 14, 5, 6, 7, 8], [9]])


def logits_and_gradients(model: torch.nn.Module) -> dict[str, Tensor]:
    """In float32: the logits, and the gradient of each parameter."""
    logits = model(**INPUTS)[0].float()
    log_probabilities = logits.log_softmax(-1)
    # Any loss will do; all types are looked at, all of the target but its padding.
    wanted = torch.arange(logits.size(-1)) % 5 / 10 * INPUTS["prev_output_tokens"].ne(1).unsqueeze(-1)
    model.zero_grad()
    (-(log_probabilities * wanted).sum()).backward()
    return {"logits": logits.detach()} | {
        name: parameter.grad.float() for name, parameter in model.named_parameters() if parameter.grad is not None
    }


def share(difference: Tensor, of: Tensor) -> float:
    return float(difference.norm() / of.norm())


@pytest.mark.parametrize("dtype", ROUNDING, ids=["fp16", "bf16"])
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_float32(case: str, dtype: torch.dtype) -> None:
    # A smooth activation: rounding flips the signs that a ReLU cuts by.
    half = build(CASES[case], activation_fn="gelu").to(dtype)
    # The rounded parameters, so that the difference is what the computation loses.
    full = build(CASES[case], activation_fn="gelu")
    full.load_state_dict(half.state_dict())
    exact, got = logits_and_gradients(full.float()), logits_and_gradients(half)
    assert exact.keys() == got.keys()
    largest = max(float(gradient.norm()) for name, gradient in exact.items() if name != "logits")
    for name, expected in exact.items():
        assert got[name].isfinite().all(), name
        # Gradients that are zero but for rounding, such as those of the keys' biases, have no direction to agree on.
        if name == "logits" or expected.norm() > 1e-2 * largest:
            roundings = LOGITS if name == "logits" else GRADIENTS
            assert share(got[name] - expected, expected) < roundings * ROUNDING[dtype], name


@pytest.mark.parametrize("dtype", ROUNDING, ids=["fp16", "bf16"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_sums_of_48_layers_do_not_overflow(norm: str, dtype: torch.dtype) -> None:
    stacks = {"encoder_layers": 48, "encoder_norm": norm, "decoder_norm": norm, "dlcl_init": "one"}
    half = build(stacks, decoder_layers=2).to(dtype)
    with torch.no_grad():
        # What is summed is forty times its usual size.
        for name, parameter in half.named_parameters():
            if name.startswith("encoder.") and "norm" in name and name.endswith("weight"):
                parameter.fill_(40.0)
    full = build(stacks, decoder_layers=2)
    full.load_state_dict(half.state_dict())
    source = {name: INPUTS[name] for name in ("src_tokens", "src_lengths")}
    with torch.no_grad():
        exact = full.float().encoder(**source)["encoder_out"][0]
        got = half.encoder(**source)["encoder_out"][0].float()
    assert got.isfinite().all()
    assert share(got - exact, exact) < SUMS * ROUNDING[dtype]
