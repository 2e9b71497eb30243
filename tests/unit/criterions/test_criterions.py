"""R-Drop and SimCut against equations (18) and (19)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from fairseq import utils
from support.consistency_reference import (
    CONFIGS,
    PAD,
    captured,
    gradients,
    kl,
    make,
    make_model,
    make_sample,
    nll,
    objective,
    same,
)
from torch import Tensor

import deepnmt.criterions  # noqa: F401  registers them
from deepnmt.criterions.simcut import cut_second_half
from deepnmt.errors import UserError


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq's log-softmax is float32 for any input; without that, references can be compared closely."""
    monkeypatch.setattr(utils, "log_softmax", lambda x, dim, onnx_trace=False: torch.log_softmax(x, dim))


@pytest.mark.parametrize("prefix", [0, 2])
@pytest.mark.parametrize("kind", ["ours", "stock", "stock-shared"])
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.usefixtures("in_float64")
def test_loss_and_gradients_are_the_equation_of_the_two_passes(name: str, kind: str, prefix: int) -> None:
    model, sample = make_model(kind, dropout=0.3, attention_dropout=0.2), make_sample()
    criterion = make(name, ignore_prefix_size=prefix)
    with captured(model) as calls:
        loss, sample_size, log = criterion(model, sample)
    assert [tuple(call.shape[:2]) for call in calls] == [(6, 7)]
    first, second = calls[0].chunk(2)
    assert (first - second).abs().amax(-1).min() > 1e-3

    target = sample["target"]
    expected = objective(name, calls[0], target, criterion.alpha, prefix)
    assert torch.allclose(loss, expected, rtol=1e-10)
    assert same(gradients(loss, model), gradients(expected, model))
    there, back = kl(first, second, target, prefix), kl(second, first, target, prefix)
    plain = [nll(scores, target, 0.0, prefix) for scores in (first, second)]
    assert sample_size == log["sample_size"] == log["ntokens"] == 14
    assert log["nsentences"] == 3
    assert torch.allclose(log["loss"], expected)
    assert torch.allclose(log["nll_loss"], sum(plain) / 2 if name == "r_drop" else plain[0])
    assert torch.allclose(log["kl_loss"], (there + back) / 2 if name == "r_drop" else there)
    assert not any(log[key].requires_grad for key in ("loss", "nll_loss", "kl_loss"))


@pytest.mark.parametrize("kept", ["first", "second"])
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.usefixtures("in_float64")
def test_gradient_of_the_divergence_flows_into_both_passes(name: str, kept: str) -> None:
    model, sample = make_model("ours", dropout=0.3), make_sample()
    with captured(model) as calls:
        loss, _, _ = make(name)(model, sample)
    first, second = calls[0].chunk(2)
    parts = (first, second.detach()) if kept == "first" else (first.detach(), second)
    one_sided = objective(name, torch.cat(parts), sample["target"], 5.0 if name == "r_drop" else 3.0)
    assert torch.allclose(loss, one_sided)
    assert not same(gradients(loss, model), gradients(one_sided, model))


@pytest.mark.usefixtures("in_float64")
def test_r_drop_without_dropout_is_twice_the_cross_entropy() -> None:
    model, sample = make_model("ours"), make_sample()
    loss, _, log = make("r_drop")(model, sample)
    expected = 2 * nll(model(**sample["net_input"])[0], sample["target"], 0.1)
    assert torch.allclose(loss, expected, rtol=1e-10)
    assert same(gradients(loss, model), gradients(expected, model))
    assert abs(log["kl_loss"]) < 1e-12


@contextmanager
def cut(module: torch.nn.Module, masks: list[Tensor]) -> Iterator[None]:
    """The module's outputs, call by call, with zeros at the places of the masks."""
    calls = iter(masks)
    handle = module.register_forward_hook(lambda module, inputs, output: output * ~next(calls).unsqueeze(-1))
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("kind", ["ours", "stock", "stock-shared"])
@pytest.mark.usefixtures("in_float64")
def test_simcut_zeroes_the_embeddings_that_the_seed_draws(kind: str) -> None:
    model, sample = make_model(kind), make_sample()
    torch.manual_seed(3)
    loss, _, _ = make("simcut", simcut_rate=0.4)(model, sample)

    inputs, target = sample["net_input"], sample["target"]
    torch.manual_seed(3)
    masks = [(torch.rand(6, inputs[key].size(1)) < 0.4)[3:] for key in ("src_tokens", "prev_output_tokens")]
    # The source's last tokens, and the target's first.
    masks[0][:, -1] = masks[1][:, 0] = False
    assert all(mask.any() for mask in masks)
    scores = model(**inputs)[0]
    encoder, decoder = model.encoder.embed_tokens, model.decoder.embed_tokens
    with cut(encoder, masks if kind == "stock-shared" else masks[:1]):
        if kind == "stock-shared":
            scores_cut = model(**inputs)[0]
        else:
            with cut(decoder, masks[1:]):
                scores_cut = model(**inputs)[0]
    expected = nll(scores, target, 0.1) + 3 * kl(scores, scores_cut, target)
    assert torch.allclose(loss, expected, rtol=1e-10)
    assert same(gradients(loss, model), gradients(expected, model))


def test_the_cut_takes_its_share_of_the_second_half_only() -> None:
    model = torch.nn.ModuleDict({"embed_tokens": torch.nn.Embedding(10, 4), "other": torch.nn.Embedding(10, 4)})
    torch.nn.init.ones_(model["embed_tokens"].weight)
    tokens = torch.randint(2, 10, (80, 100))

    def zeros() -> Tensor:
        torch.manual_seed(1)
        with cut_second_half(model, 0.3, torch.empty(0), 1):
            assert not (model["other"](tokens) == 0).any()
            embedding: Tensor = model["embed_tokens"](tokens)
        assert set(embedding.unique().tolist()) == {0, 1}
        assert torch.equal(embedding.amin(-1), embedding.amax(-1))
        return embedding[..., 0] == 0

    drawn = zeros()
    assert not drawn[:40].any()
    assert abs(drawn[40:].double().mean() - 0.3) < 0.03
    assert drawn[40:, :-1].any(0).all()
    assert drawn[40:].any(1).all()
    assert torch.equal(drawn, zeros())


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_sources_last_and_the_targets_first_token_are_never_cut(side: str) -> None:
    model = torch.nn.ModuleDict({"embed_tokens": torch.nn.Embedding(10, 4)})
    torch.nn.init.ones_(model["embed_tokens"].weight)
    sentence, padding = torch.randint(2, 10, (40, 5)), torch.full((40, 3), PAD)
    tokens = torch.cat([padding, sentence] if side == "left" else [sentence, padding], dim=1)
    target = tokens.clone()
    with cut_second_half(model, 0.99, target, PAD):
        source_kept, target_kept = (model["embed_tokens"](each)[20:, :, 0] == 1 for each in (tokens, target))
    first, last = (3, 7) if side == "left" else (0, 4)
    assert source_kept[:, last].all()
    assert target_kept[:, first].all()
    assert source_kept[:, first:last].double().mean() < 0.1
    assert target_kept[:, first + 1 : last + 1].double().mean() < 0.1


def test_the_cut_ends_with_its_context_and_needs_an_embedding() -> None:
    model = make_model("stock-shared")
    with pytest.raises(IndexError, match="out of range"), cut_second_half(model, 0.3, torch.empty(0), 1):
        model.encoder.embed_tokens(torch.tensor([[1000]]))
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(UserError, match="simcut needs a model with modules called embed_tokens"):
        cut_second_half(torch.nn.Linear(1, 1), 0.3, torch.empty(0), 1).__enter__()


@pytest.mark.usefixtures("in_float64")
def test_nothing_cut_means_no_divergence() -> None:
    model, sample = make_model("ours"), make_sample()
    loss, _, log = make("simcut", simcut_rate=0.0)(model, sample)
    assert torch.allclose(loss, nll(model(**sample["net_input"])[0], sample["target"], 0.1), rtol=1e-10)
    assert abs(log["kl_loss"]) < 1e-12


@pytest.mark.usefixtures("in_float64")
def test_padding_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, results = make_model("ours"), []
    source, target = torch.rand(6, 20), torch.rand(6, 20)
    for extra in (0, 3):
        # The same tokens are cut: the source is padded on the left, the target on the right.
        draws = iter([lambda length: source[:, -length:], lambda length: target[:, :length]])
        monkeypatch.setattr(torch, "rand", lambda size, length, device, draws=draws: next(draws)(length))
        loss, sample_size, log = make("simcut", simcut_rate=0.4)(model, make_sample(extra))
        results.append([loss, torch.tensor(sample_size), log["kl_loss"], log["nll_loss"], *gradients(loss, model)])
    assert results[0][2] > 0.01
    assert same(*results)
