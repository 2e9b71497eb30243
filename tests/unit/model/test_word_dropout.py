"""Word dropout: embeddings that are zero, drawn with the seed of the update, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.consistency_reference import PAD, captured, kl, make, make_sample, nll
from support.models import EXAMPLE, build
from support.restarts import train_until
from support.trainings import binarised_text
from torch import Tensor

import deepnmt
from deepnmt.kernels.word_dropout import dropped_source, dropped_target

BOTH = {"encoder_word_dropout": 0.4, "decoder_word_dropout": 0.3}


def with_zeros(model: Any, source: Tensor, target: Tensor, inputs: dict[str, Tensor]) -> Tensor:
    """The logits for embeddings that are zero at the places of both masks."""
    masks, handles = {"encoder": source, "decoder": target}, []
    for stack, mask in masks.items():

        def hide(module: Any, inputs: Any, output: Tensor, mask: Tensor = mask) -> Tensor:
            return output * ~mask.unsqueeze(-1)

        handles.append(getattr(model, stack).embed_tokens.register_forward_hook(hide))
    logits: Tensor = model(**inputs)[0]
    for handle in handles:
        handle.remove()
    return logits


def test_embeddings_that_the_seed_draws_are_zero_in_training_alone() -> None:
    model, plain = build(BOTH).train(), build()
    source, target = EXAMPLE["src_tokens"], EXAMPLE["prev_output_tokens"]
    torch.manual_seed(3)
    found = model(**EXAMPLE)[0]
    torch.manual_seed(3)
    masks = [torch.rand(tokens.shape) < rate for tokens, rate in ((source, 0.4), (target, 0.3))]
    # The sources' end symbols and the targets' first tokens.
    masks[0][:, -1] = masks[1][:, 0] = False
    assert all(mask.any() for mask in masks)
    torch.testing.assert_close(found, with_zeros(plain, *masks, EXAMPLE), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(model.eval()(**EXAMPLE)[0], plain(**EXAMPLE)[0], rtol=0, atol=0)


def test_without_it_nothing_is_drawn() -> None:
    model = build().train()
    state = torch.get_rng_state()
    model(**EXAMPLE)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("side", ["left", "right"])
def test_first_and_last_tokens_stay_and_the_others_have_their_share(side: str) -> None:
    torch.manual_seed(1)
    sentences, padding = torch.randint(4, 10, (200, 40)), torch.full((200, 7), PAD)
    tokens = torch.cat([padding, sentences] if side == "left" else [sentences, padding], dim=1)
    source, target = dropped_source(tokens, 0.3, PAD), dropped_target(tokens, 0.3, PAD)
    last = 46 if side == "left" else 39
    begin = 7 if side == "left" else 0
    assert not source[:, last].any()
    assert not target[:, begin].any()
    for drawn in (source, target):
        inner = drawn[:, begin + 1 : last]
        assert abs(float(inner.double().mean()) - 0.3) < 0.02
        assert inner.any(0).all()


def test_simcut_cuts_beside_it() -> None:
    model, sample = build(BOTH).train(), make_sample()
    torch.manual_seed(4)
    with captured(model) as calls:
        loss, _, log = make("simcut", simcut_rate=0.2)(model, sample)
    torch.manual_seed(4)
    rates, masks = {"encoder": 0.4, "decoder": 0.3}, []
    for stack, key in (("encoder", "src_tokens"), ("decoder", "prev_output_tokens")):
        tokens = sample["net_input"][key].repeat(2, 1)
        cut = torch.rand(tokens.shape) < 0.2  # by the criterion, in the second half
        cut[:3] = False
        mask = cut | (torch.rand(tokens.shape) < rates[stack])
        mask[:, -1 if stack == "encoder" else 0] = False
        masks.append(mask)
    twice = {key: torch.cat([value, value]) for key, value in sample["net_input"].items()}
    first, second = with_zeros(build(), *masks, twice).chunk(2)
    torch.testing.assert_close(calls[0], torch.cat([first, second]))
    target = sample["target"]
    torch.testing.assert_close(loss, nll(first, target, 0.1) + 3 * kl(first, second, target))
    assert log["nsentences"] == 3


@pytest.mark.slow
def test_killed_and_resumed_it_is_the_same_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deepnmt.register()
    data = [str(binarised_text(tmp_path))]
    options = ["--batch-size=8", "--criterion=label_smoothed_cross_entropy_r_drop", "--max-update=6", "--dropout=0.1"]
    options += ["--share-all-embeddings", "--save-interval-updates=2", "--no-progress-bar"]
    options += ["--encoder-word-dropout=0.2", "--decoder-word-dropout=0.2"]
    train_until(monkeypatch, data, tmp_path / "whole", *options)
    train_until(monkeypatch, data, tmp_path / "parts", *options, killed_at=3)
    assert train_until(monkeypatch, data, tmp_path / "parts", *options) == [2, 3, 4, 5]
    whole, parts = (
        torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=True)["model"] for name in ("whole", "parts")
    )
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
