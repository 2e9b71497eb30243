"""The loss of a two-sided model, word by word."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from fairseq.logging import metrics
from support.consistency_reference import EOS, SOURCES, TARGETS, make_sample, nll
from support.models import batch, build, task

from deepnmt.criterions import two_sided_loss
from deepnmt.criterions.two_sided_loss import TwoSided, TwoSidedConfig
from deepnmt.errors import UserError


def criterion(**options: Any) -> TwoSided:
    return TwoSided(task(), TwoSidedConfig(**{"sentence_avg": False, "label_smoothing": 0.1, **options}))


def expected(model: Any, epsilon: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The losses of both decoders, sentence by sentence."""
    forward = backward = torch.zeros((), dtype=torch.float64)
    for source, target in zip(SOURCES, TARGETS):
        inputs = batch([source], [target])
        found = model.encoder(inputs["src_tokens"], src_lengths=inputs["src_lengths"])
        there = model.decoder(inputs["prev_output_tokens"], encoder_out=found)[0]
        turned = torch.tensor([[EOS, *target[::-1]]])
        back = model.encoder.backward_decoder(turned, encoder_out=found)[0]
        forward = forward + nll(there, torch.tensor([[*target, EOS]]), epsilon)
        backward = backward + nll(back, torch.tensor([[*target[::-1], EOS]]), epsilon)
    return forward, backward


@pytest.mark.parametrize(("weight", "fused"), [(0.0, True), (0.3, True), (0.3, False), (1.0, True)])
def test_loss_and_gradients(weight: float, fused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not fused:
        monkeypatch.setattr(two_sided_loss, "obstacle", lambda model: "it is to be compared")
    gradients, sample = [], make_sample()
    for ours in (True, False):
        model = build({"two_sided": True}).train()
        forward, backward = expected(model, 0.1)
        loss, size, log = criterion(two_sided_weight=weight, report_accuracy=True)(model, sample)
        other = weight * forward + (1 - weight) * backward
        assert float(loss) == pytest.approx(float(other), rel=1e-5)
        assert size == sample["ntokens"]
        (loss if ours else other).backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in gradients[1].items():
        mine = gradients[0][name]
        if gradient is None:
            assert mine is None or not mine.any(), name
        else:
            torch.testing.assert_close(mine, gradient, rtol=1e-4, atol=1e-5, msg=name)
    # Through the states, the backward decoder learns from the forward one's loss, too.
    assert bool(gradients[0]["encoder.backward_decoder.layers.0.fc1.weight"].abs().max() > 1e-4)
    seen = gradients[0]["decoder.layers.0.backward_attn.k_proj.weight"]
    assert bool(seen.any()) == (weight > 0)
    there, back = (float(each) for each in expected(model, 0.0))
    assert float(log["nll_loss"]) == pytest.approx(there, rel=1e-5)
    assert float(log["backward_nll_loss"]) == pytest.approx(back, rel=1e-5)
    with metrics.aggregate(new_root=True) as aggregator:
        TwoSided.reduce_metrics([log, log])
    shown = aggregator.get_smoothed_values()
    assert shown["nll_loss"] == pytest.approx(there / sample["ntokens"] / math.log(2), abs=1e-3)
    assert shown["backward_nll_loss"] == pytest.approx(back / sample["ntokens"] / math.log(2), abs=1e-3)
    assert log["total"] == sample["ntokens"]


def test_each_position_by_itself() -> None:
    model = build({"two_sided": True})
    each, _, _ = criterion(label_smoothing=0.0)(model, make_sample(), reduce=False)
    total, _, _ = criterion(label_smoothing=0.0)(model, make_sample())
    assert float(each.sum()) == pytest.approx(float(total))


def test_faults_of_its_options() -> None:
    message = (
        r"^--two-sided-weight must be from 0 to 1, but is 1.5\n--ignore-prefix-size must be 0 with a two-sided model"
    )
    with pytest.raises(UserError, match=message):
        criterion(two_sided_weight=1.5, ignore_prefix_size=1)
