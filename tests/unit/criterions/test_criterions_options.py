"""R-Drop and SimCut: fairseq's options, the log, precisions, wrappers, and their own options."""

from __future__ import annotations

import copy
import math
import sys
from typing import Any

import pytest
import torch
from fairseq import criterions, options, utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import LegacyDistributedDataParallel, ModuleProxyWrapper
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from support.consistency_reference import (
    CONFIGS,
    PAD,
    SMOOTHED,
    captured,
    gradients,
    kl,
    make,
    make_model,
    make_sample,
    objective,
    positions,
    same,
)
from support.models import task
from torch import Tensor

import deepnmt.criterions  # noqa: F401  registers them
from deepnmt.criterions import consistency
from deepnmt.criterions.consistency import divergences, doubled
from deepnmt.criterions.r_drop import RDrop
from deepnmt.criterions.simcut import SimCut
from deepnmt.errors import UserError


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq's log-softmax is float32 for any input."""
    monkeypatch.setattr(utils, "log_softmax", lambda x, dim, onnx_trace=False: torch.log_softmax(x, dim))


def stock_criterion(**more: Any) -> LabelSmoothedCrossEntropyCriterion:
    return LabelSmoothedCrossEntropyCriterion(task(), **{**SMOOTHED, **more})


def logged(criterion: Any, logs: list[dict[str, Any]]) -> dict[str, float]:
    """What fairseq shows of the logging outputs."""
    with metrics.aggregate(new_root=True) as aggregator:
        criterion.reduce_metrics(logs)
    return dict(aggregator.get_smoothed_values())


@pytest.mark.parametrize("more", [{}, {"sentence_avg": True}, {"ignore_prefix_size": 2}, {"report_accuracy": True}])
@pytest.mark.parametrize("name", CONFIGS)
def test_validation_is_fairseqs_criterion(name: str, more: dict[str, Any]) -> None:
    model, sample = make_model("ours", dropout=0.3).eval(), make_sample()
    ours, stock = make(name, **more), stock_criterion(**more)
    for reduce in (True, False):
        (loss, size, log), expected = ours(model, sample, reduce), stock(model, sample, reduce)
        torch.testing.assert_close(loss, expected[0], check_dtype=False)
        assert size == expected[1]
        assert log.keys() == expected[2].keys()
        for key in log:
            torch.testing.assert_close(torch.as_tensor(log[key]), torch.as_tensor(expected[2][key]), check_dtype=False)
    log = ours(model, sample)[2]
    assert logged(ours, [log]) == logged(stock, [log])


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.usefixtures("in_float64")
def test_a_plain_loss_comes_first(name: str) -> None:
    model, sample = make_model("ours", dropout=0.3), make_sample()
    criterion, stock = make(name, consistency_start_update=5), stock_criterion()
    for updates, plain in ((0, True), (4, True), (5, False), (400, False)):
        criterion.set_num_updates(updates)
        torch.manual_seed(3)
        with captured(model) as calls:
            loss, _, log = criterion(model, sample)
        assert len(calls[0]) == (3 if plain else 6)
        assert ("kl_loss" in log) == (not plain)
        if plain:
            torch.manual_seed(3)
            expected = stock(model, sample)[0]
            torch.testing.assert_close(loss, expected, check_dtype=False)
            assert all(map(torch.allclose, gradients(loss, model), gradients(expected, model)))


def test_the_trainer_tells_the_criterion_of_its_updates() -> None:
    """After each update, and when a checkpoint is loaded; other criterions are left alone."""
    trainer: Any = object.__new__(Trainer)
    for criterion in (make("r_drop"), stock_criterion()):
        trainer._criterion, trainer.quantizer = criterion, None
        trainer.lr_step_update = lambda: None
        trainer.set_num_updates(7)
        assert trainer.get_num_updates() == 7
        assert getattr(criterion, "updates", 7) == 7


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.usefixtures("in_float64")
def test_r_drop_with_alpha_zero_is_the_cross_entropy_of_the_batch_twice(dropout: float) -> None:
    model, sample = make_model("ours", dropout=dropout), make_sample()
    twice = {
        "net_input": {key: value.repeat(2, *[1] * (value.dim() - 1)) for key, value in sample["net_input"].items()},
        "target": sample["target"].repeat(2, 1),
        "ntokens": 28,
    }
    torch.manual_seed(4)
    loss = make("r_drop", r_drop_alpha=0.0)(model, sample)[0]
    torch.manual_seed(4)
    expected = stock_criterion()(model, twice)[0]
    assert torch.allclose(loss, expected)
    assert same(gradients(loss, model), gradients(expected, model))


@pytest.mark.usefixtures("in_float64")
def test_simcut_with_alpha_zero_is_the_cross_entropy() -> None:
    model, sample = make_model("ours"), make_sample()
    loss, _, log = make("simcut", simcut_alpha=0.0, simcut_rate=0.4)(model, sample)
    expected = stock_criterion()(model, sample)[0]
    assert torch.allclose(loss, expected)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(gradients(loss, model), gradients(expected, model)))
    assert log["kl_loss"] > 0.01


@pytest.mark.parametrize("prefix", [0, 2])
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.usefixtures("in_float64")
def test_options_of_fairseq_hold_in_training(name: str, prefix: int) -> None:
    model, sample = make_model("ours", dropout=0.5), make_sample()
    criterion = make(name, ignore_prefix_size=prefix, report_accuracy=True, sentence_avg=True)
    counted = positions(sample["target"], prefix)
    with captured(model) as calls:
        torch.manual_seed(5)
        criterion(model, sample)
        best = calls[0].argmax(-1)
        for b, t in counted[1:]:
            sample["target"][b, t] = best[b, t]
        torch.manual_seed(5)
        loss, sample_size, log = criterion(model, sample)
    assert sample_size == log["sample_size"] == 3
    assert log["total"] == len(counted)
    correct = [sum(int(best[b + half, t] == sample["target"][b, t]) for b, t in counted) for half in (0, 3)]
    assert log["n_correct"] == correct[0] > correct[1]
    assert logged(criterion, [log])["accuracy"] == pytest.approx(100 * log["n_correct"] / len(counted), abs=1e-3)
    torch.manual_seed(5)
    each = criterion(model, sample, reduce=False)[0]
    assert each.shape == (3 * 7, 1)
    assert torch.allclose(each.sum(), loss)
    assert torch.equal(each.squeeze(1).nonzero().squeeze(1), torch.tensor([7 * b + t for b, t in counted]))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_prefix_longer_than_the_sentences_leaves_zero(name: str) -> None:
    model = make_model("ours", dropout=0.3)
    criterion = make(name, ignore_prefix_size=9, report_accuracy=True)
    loss, _, log = criterion(model, make_sample())
    assert loss == log["kl_loss"] == log["nll_loss"] == log["total"] == 0
    assert not any(gradient.any() for gradient in gradients(loss, model))
    assert logged(criterion, [log])["kl_loss"] == 0


@pytest.mark.parametrize("name", CONFIGS)
def test_the_log_is_in_bits_per_token(name: str) -> None:
    """`loss` per sample size, the others per token; summed over workers or not."""
    first = {"loss": 6.0, "nll_loss": 4.0, "kl_loss": 2.0, "ntokens": 8, "nsentences": 2, "sample_size": 2}
    second = {"loss": 10.0, "nll_loss": 5.0, "kl_loss": 1.0, "ntokens": 12, "nsentences": 3, "sample_size": 3}
    summed = {key: torch.tensor(first[key] + second[key]) for key in first}
    criterion = make(name)
    assert criterion.logging_outputs_can_be_summed()
    for logs in ([first, second], [summed]):
        shown = logged(criterion, logs)
        assert shown["loss"] == pytest.approx(16 / 5 / math.log(2), abs=1e-3)
        assert shown["nll_loss"] == pytest.approx(9 / 20 / math.log(2), abs=1e-3)
        assert shown["kl_loss"] == pytest.approx(3 / 20 / math.log(2), abs=1e-3)
        assert shown["ppl"] == pytest.approx(math.exp(9 / 20), abs=1e-2)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CONFIGS)
def test_half_precision_compares_in_float32(name: str, kind: torch.dtype) -> None:
    model, sample = make_model("ours", dropout=0.1).to(kind), make_sample()
    criterion = make(name)
    with captured(model) as calls:
        loss, _, log = criterion(model, sample)
    assert calls[0].dtype == kind
    assert loss.dtype == log["kl_loss"].dtype == torch.float32
    scores, target = calls[0].double(), sample["target"]
    first, second = scores.chunk(2)
    both = kl(first, second, target), kl(second, first, target)
    assert torch.allclose(loss.double(), objective(name, scores, target, criterion.alpha), rtol=1e-5)
    assert torch.allclose(log["kl_loss"].double(), sum(both) / 2 if name == "r_drop" else both[0], rtol=1e-4)
    assert all(gradient.isfinite().all() for gradient in gradients(loss, model))


def test_an_adaptive_softmax_is_compared_in_float32_too() -> None:
    model = make_model("stock", adaptive_softmax_cutoff=[8, 14], dropout=0.1).bfloat16()
    loss, _, log = make("r_drop")(model, make_sample())
    assert loss.dtype == log["kl_loss"].dtype == torch.float32
    assert log["kl_loss"] > 0


def test_divergences_far_apart_stay_finite() -> None:
    lprobs = torch.log_softmax(torch.tensor([[1e4, 0.0, 0.0], [0.0, 1e4, 0.0]]), dim=1).requires_grad_()
    result = divergences(lprobs)
    assert result.flatten().tolist() == [1e4, 1e4]
    result.sum().backward()
    assert lprobs.grad is not None
    assert lprobs.grad.isfinite().all()


@pytest.mark.parametrize("rows", [1, 2, 5, 512])
def test_divergences_piece_by_piece(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the rows are no log-probabilities; nothing but the input is kept for the backward pass."""
    monkeypatch.setattr(consistency, "ROWS", rows)
    lprobs = torch.randn(10, 4, dtype=torch.float64, requires_grad=True)
    p, q = lprobs.chunk(2)
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        result = divergences(lprobs)
    assert [tensor.data_ptr() for tensor in kept] == [lprobs.data_ptr()]
    assert torch.allclose(result[0, :, 0], (p.exp() * (p - q)).sum(1))
    assert torch.allclose(result[1, :, 0], (q.exp() * (q - p)).sum(1))
    assert torch.autograd.gradcheck(divergences, lprobs)


def test_a_net_input_is_doubled_whatever_it_holds() -> None:
    a, b, table = torch.tensor([[1, 2], [3, 4]]), torch.tensor([5, 6]), torch.ones(3, 2)
    inputs = {"a": a, "none": None, "nested": [b, {"c": b}], "scalar": torch.tensor(7), "table": table, "flag": True}
    result = doubled(inputs, sentences=2)
    assert result["a"].tolist() == [[1, 2], [3, 4], [1, 2], [3, 4]]
    assert result["nested"][0].tolist() == result["nested"][1]["c"].tolist() == [5, 6, 5, 6]
    assert result["none"] is None
    assert result["flag"] is True
    assert result["scalar"].tolist() == 7
    assert torch.equal(result["table"], table)
    assert inputs["a"] is a
    assert inputs["nested"][0] is b


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_sample_stays_as_it_was(name: str, training: bool) -> None:
    model, sample = make_model("ours").train(training), make_sample()
    before = copy.deepcopy(sample)
    make(name, ignore_prefix_size=2)(model, sample)
    inputs, expected = sample.pop("net_input"), before.pop("net_input")
    assert inputs.keys() == expected.keys()
    assert all(torch.equal(inputs[key], expected[key]) for key in inputs)
    assert torch.equal(sample.pop("target"), before.pop("target"))
    assert sample == before


def seeded_gradients(name: str, model: Any) -> list[Tensor]:
    torch.manual_seed(6)
    loss = make(name)(model, make_sample())[0]
    model.zero_grad()
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters() if p.requires_grad)]


@pytest.mark.parametrize("name", CONFIGS)
def test_wrapped_for_distributed_training_and_with_recomputed_activations(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model("stock-shared", dropout=0.3)
    plain = [tensor.clone() for tensor in seeded_gradients(name, model)]
    assert same(plain, seeded_gradients(name, model))
    recomputing = make_model("stock-shared", dropout=0.3, checkpoint_activations=True)
    assert same(seeded_gradients(name, recomputing), plain)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # torch puts its own in front
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        group = torch.distributed.group.WORLD
        for wrapped in (
            torch.nn.parallel.DistributedDataParallel(model),
            LegacyDistributedDataParallel(model, process_group=group),
        ):
            proxy = ModuleProxyWrapper(wrapped)
            assert same(seeded_gradients(name, proxy), plain)
            assert "kl_loss" not in make(name)(proxy.eval(), make_sample())[2]
            proxy.train()
    finally:
        torch.distributed.destroy_process_group()


def parsed(name: str, *arguments: str) -> Any:
    """The criterion that fairseq builds for a command line."""
    parser = options.get_training_parser()
    command = ["DATA", "--arch", "transformer", "--criterion", f"label_smoothed_cross_entropy_{name}", *arguments]
    config = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, command))
    return criterions.build_criterion(config.criterion, task())


def test_options_of_the_command_line() -> None:
    r_drop, simcut = parsed("r_drop"), parsed("simcut")
    assert (type(r_drop), r_drop.alpha) == (RDrop, 5)
    assert (type(simcut), simcut.alpha, simcut.rate) == (SimCut, 3, 0.05)
    common = ("--label-smoothing", "0.2", "--ignore-prefix-size", "1", "--report-accuracy", "--sentence-avg")
    for criterion in (
        parsed("r_drop", "--r-drop-alpha", "2", *common),
        parsed("simcut", "--simcut-alpha", "2", "--simcut-rate", "0.1", *common),
    ):
        assert (criterion.alpha, criterion.eps, criterion.ignore_prefix_size) == (2, 0.2, 1)
        assert criterion.report_accuracy is criterion.sentence_avg is True
        assert getattr(criterion, "rate", 0.1) == 0.1
        assert criterion.padding_idx == PAD


@pytest.mark.parametrize("value", [-0.1, math.inf, math.nan])
def test_options_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(UserError, match=rf"--r-drop-alpha must be a finite number of at least 0, but is {value}"):
        make("r_drop", r_drop_alpha=value)
    both = rf"--simcut-alpha must be a finite .* 0, but is {value}\n--simcut-rate must be at .* below 1, but is {value}"
    with pytest.raises(UserError, match=both):
        make("simcut", simcut_alpha=value, simcut_rate=value)
    with pytest.raises(UserError, match=r"^--consistency-start-update must be at least 0, but is -1$"):
        make("r_drop", consistency_start_update=-1)
    with pytest.raises(UserError, match=r"^--simcut-rate must be at least 0 and below 1, but is 1.0$"):
        make("simcut", simcut_rate=1.0)
