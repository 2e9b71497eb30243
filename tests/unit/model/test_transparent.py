"""Transparent attention against the sum written out in float64, and its way through growth and decoding."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from support.checkpoints import checkpoint, model_of
from support.models import EXAMPLE, PLAIN, PRE_NORM, SIZE, build, incremental_logits, logits, task
from torch import Tensor

from deepnmt.checkpoints.contents import is_buffer
from deepnmt.checkpoints.grow import Growth, grow
from deepnmt.checkpoints.shrink import Shrinking, shrink
from deepnmt.errors import UserError
from deepnmt.model.config import DLCLTransformerConfig
from deepnmt.model.transformer import DLCLTransformerModel
from deepnmt.model.transparent import SUMS, TopSums

TRANSPARENT = {**PLAIN, "encoder_groups": "transparent"}
TOP = {**PLAIN, "encoder_groups": "top"}
REAL = EXAMPLE["prev_output_tokens"].ne(1)


def written_out(weights: list[list[float]], outputs: list[Tensor], reader: int) -> Tensor:
    """sum_k exp W[k, r] / sum_j exp W[j, r] y_k, term by term."""
    exponentials = [torch.tensor(row[reader], dtype=torch.float64).exp() for row in weights]
    total = sum(exponentials, torch.zeros((), dtype=torch.float64))
    return sum((e / total * y for e, y in zip(exponentials, outputs)), torch.zeros_like(outputs[0]))


@pytest.mark.parametrize("norm", [{}, PRE_NORM, {"encoder_norm": "none"}], ids=["post", "pre", "none"])
@pytest.mark.parametrize(("groups", "readers"), [(TRANSPARENT, [0, 1, 2]), (TOP, [0, 0, 0])], ids=["own", "one"])
def test_each_decoder_layer_reads_the_sum(
    groups: dict[str, Any], readers: list[int], norm: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, read = build({**groups, **norm}), []
    for layer in model.decoder.layers:
        layer.encoder_attn.register_forward_pre_hook(
            lambda _, args, kwargs: read.append(kwargs["key"] if "key" in kwargs else args[1]), with_kwargs=True
        )
    model(**EXAMPLE)
    states = model.encoder(EXAMPLE["src_tokens"], return_all_hiddens=True)["encoder_states"]
    assert len(states) == 4
    for found, reader in zip(read, readers, strict=True):
        expected = written_out(model.encoder.history.weight.tolist(), states, reader)
        if norm is PRE_NORM:
            last = model.encoder.layer_norm
            expected = torch.layer_norm(expected, (16,), last.weight, last.bias, last.eps)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_begins_with_the_mean() -> None:
    torch.testing.assert_close(TopSums(3, 2).matrix(), torch.full((4, 2), 0.25))


@pytest.mark.parametrize("groups", [TRANSPARENT, TOP])
def test_all_weight_on_the_last_output_is_the_plain_model(groups: dict[str, Any]) -> None:
    transparent, plain = build({**groups, **PRE_NORM}), build({**PLAIN, **PRE_NORM}, seed=2)
    tensors = {name: each for name, each in transparent.state_dict().items() if name != SUMS}
    plain.load_state_dict(tensors)
    with torch.no_grad():
        transparent.encoder.history.weight.copy_(torch.tensor([-1e3, -1e3, -1e3, 0]).unsqueeze(1))
    torch.testing.assert_close(logits(transparent, EXAMPLE), logits(plain, EXAMPLE), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"merged_attention": True, "two_sided": True},
        {"decoder_self_attention": "shared", "shared_cross_attention": True},
        {"decoder_share_layers": "0,0,1", "encoder_max_relative_length": 2},
    ],
    ids=["plain", "two-sided, merged", "shared", "shared layers"],
)
def test_decoding_step_by_step(more: dict[str, Any]) -> None:
    model = build({**TRANSPARENT, **more})
    stepwise, full = incremental_logits(model, EXAMPLE), logits(model, EXAMPLE)
    torch.testing.assert_close(stepwise[REAL], full[REAL], rtol=0, atol=1e-6)


def test_recomputed_layers_have_the_same_gradients() -> None:
    found = []
    for recomputed in (False, True):
        model = build({**TRANSPARENT, "checkpoint_activations": recomputed}).train()
        (model(**EXAMPLE)[0] ** 2).sum().backward()
        found.append(model.encoder.history.weight.grad)
    assert found[0].abs().min() > 0
    torch.testing.assert_close(*found)


def test_a_dropped_layer_passes_its_input_on() -> None:
    sums, (first, last) = TopSums(3, 1).double(), torch.rand(2, 2, 1, 4, dtype=torch.float64)
    with torch.no_grad():
        sums.weight.copy_(torch.tensor([[0.1], [0.7], [-0.3], [0.2]]))
    run = sums.start()
    run.input(2, first)  # layers 0 and 1 are left out
    expected = written_out(sums.weight.tolist(), [first, first, first, last], 0)
    torch.testing.assert_close(run.finish(last), expected)
    run = sums.start()
    run.input(0, first)
    torch.testing.assert_close(run.finish(last), written_out(sums.weight.tolist(), [first, last, last, last], 0))


def test_growth_and_shrinking_keep_the_logits_of_each_origin() -> None:
    old = checkpoint(encoder_groups="transparent", decoder_groups="1")
    weight = old["model"][SUMS]  # (4 + 1) x 4
    new, lines = grow(old, Growth({"encoder": 8, "decoder": 6}, strategy="repeat-top"))
    rows, columns = [0, 1, 2, 3, 4, 4, 4, 4, 4], [0, 1, 2, 3, 3, 3]
    torch.testing.assert_close(new["model"][SUMS], torch.stack([weight[row][columns] for row in rows]))
    assert "encoder sums: as in the origin of each layer" in lines
    assert len(logits(model_of(new), EXAMPLE)) == 2
    new, _ = shrink(old, Shrinking({"encoder": [1, 3]}, {"decoder": 2}))
    torch.testing.assert_close(new["model"][SUMS], torch.stack([weight[row][[0, 2]] for row in [0, 1, 3]]))
    model_of(new)
    top, _ = grow(checkpoint(encoder_groups="top"), Growth({"encoder": 8, "decoder": 8}))
    assert top["model"][SUMS].shape == (9, 1)
    model_of(top)


def test_moments_grow_like_the_weights() -> None:
    state = checkpoint(encoder_groups="transparent", decoder_groups="none")
    trained = [tensor for name, tensor in state["model"].items() if not is_buffer(name)]
    moments = {number: {"step": 1, "exp_avg": tensor * 2} for number, tensor in enumerate(trained)}
    optimizer = {"state": moments, "param_groups": [{"params": list(range(len(trained)))}]}
    new, _ = grow({**state, "last_optimizer_state": optimizer}, Growth({"decoder": 8}), carry_moments=True)
    place = [name for name in new["model"] if not is_buffer(name)].index(SUMS)
    found = new["last_optimizer_state"]["state"][place]["exp_avg"]
    torch.testing.assert_close(found, torch.cat([state["model"][SUMS] * 2] * 2, dim=1))


@pytest.mark.parametrize(
    ("strategy", "line"),
    [
        (Growth({"encoder": 8}, function_preserving=True), "the decoder reads all of its outputs"),
        (Growth({"encoder": 8}, groups={"encoder": "2"}), "--encoder-groups must be transparent as before, but is '2'"),
    ],
)
def test_growth_that_is_refused(strategy: Growth, line: str) -> None:
    with pytest.raises(UserError, match=re.escape(line)):
        grow(checkpoint(encoder_groups="transparent", encoder_norm="pre"), strategy)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"decoder_groups": "top"}, "--decoder-groups top is not possible: --encoder-groups alone has it"),
        ({**TOP, "dlcl_window": 2}, "--dlcl-window needs --encoder-groups or --decoder-groups, but they are top and n"),
        ({**TRANSPARENT, "base_layers": 1}, "--base-layers must be 0 with --encoder-groups transparent, but is 1"),
        (
            {**TRANSPARENT, "decoder_layers_to_keep": "0,1"},
            "--decoder-layers-to-keep cannot be combined with --encoder-groups transparent",
        ),
        ({**TOP, "encoder_layers_to_keep": "0"}, "--encoder-layers-to-keep needs --encoder-groups none"),
    ],
)
def test_combinations_that_are_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UserError, match=re.escape(line)):
        DLCLTransformerModel.build_model(DLCLTransformerConfig(**{**SIZE, **options}), task())
