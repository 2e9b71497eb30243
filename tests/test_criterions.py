"""R-Drop and SimCut against equations (18) and (19), written out here position by position."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from fairseq import criterions, options, utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import LegacyDistributedDataParallel, ModuleProxyWrapper
from fairseq.logging import metrics
from models import batch, build, build_stock, scramble, task
from torch import Tensor

import deepnmt.criterions  # noqa: F401  registers them
from deepnmt.criterions import consistency
from deepnmt.criterions.consistency import divergences, doubled
from deepnmt.criterions.r_drop import RDrop, RDropConfig
from deepnmt.criterions.simcut import SimCut, SimCutConfig, cut_second_half
from deepnmt.errors import UserError

PAD, EOS = 1, 2
SOURCES = [[5, 6, 7, 8, 9], [10, 11, 12], [5, 13]]
TARGETS = [[6, 7, 8, 9], [13, 14, 5, 6, 7, 8], [9]]
SMOOTHED: dict[str, Any] = {"label_smoothing": 0.1, "sentence_avg": False}
CONFIGS: dict[str, Any] = {"r_drop": RDropConfig, "simcut": SimCutConfig}
SHARED = {"share_all_embeddings": True}


def make(name: str, **more: Any) -> Any:
    return {"r_drop": RDrop, "simcut": SimCut}[name](task(), CONFIGS[name](**{**SMOOTHED, **more}))


def make_sample(extra_padding: int = 0) -> dict[str, Any]:
    inputs: dict[str, Any] = batch(SOURCES, TARGETS)
    longest = max(map(len, TARGETS)) + 1
    target = torch.tensor([[*t, EOS] + [PAD] * (longest - len(t) - 1) for t in TARGETS])
    for _ in range(extra_padding):
        column = torch.full((len(TARGETS), 1), PAD)
        inputs["src_tokens"] = torch.cat([column, inputs["src_tokens"]], dim=1)
        inputs["prev_output_tokens"] = torch.cat([inputs["prev_output_tokens"], column], dim=1)
        target = torch.cat([target, column], dim=1)
    return {"net_input": inputs, "target": target, "ntokens": sum(len(t) + 1 for t in TARGETS)}


def make_model(kind: str, **more: Any) -> Any:
    """In training mode, float64; dropout 0 unless given."""
    if kind == "ours":
        return build(more).train()
    model = build_stock({**more, **(SHARED if kind == "stock-shared" else {})})
    scramble(model)
    return model.double().train()


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq's log-softmax is float32 for any input; without that, references can be compared closely."""
    monkeypatch.setattr(utils, "log_softmax", lambda x, dim, onnx_trace=False: torch.log_softmax(x, dim))


@contextmanager
def captured(model: Any) -> Iterator[list[Tensor]]:
    """The logits of every call of the model."""
    calls: list[Tensor] = []
    handle = model.register_forward_hook(lambda module, inputs, output: calls.append(output[0]))
    try:
        yield calls
    finally:
        handle.remove()


def log_p(scores: Tensor) -> Tensor:
    return scores - scores.exp().sum().log()


def positions(target: Tensor, prefix: int = 0) -> list[tuple[int, int]]:
    """Those that count."""
    rows, columns = target.shape
    return [(b, t) for b in range(rows) for t in range(prefix, columns) if target[b, t] != PAD]


def nll(scores: Tensor, target: Tensor, epsilon: float, prefix: int = 0) -> Tensor:
    """The cross entropy with 1 - epsilon on the target and the rest spread evenly over the other types."""
    total = scores.new_zeros(())
    for b, t in positions(target, prefix):
        wanted = torch.full_like(scores[b, t], epsilon / (scores.size(-1) - 1))
        wanted[target[b, t]] = 1 - epsilon
        total = total - (wanted * log_p(scores[b, t])).sum()
    return total


def kl(first: Tensor, second: Tensor, target: Tensor, prefix: int = 0) -> Tensor:
    total = first.new_zeros(())
    for b, t in positions(target, prefix):
        p, q = log_p(first[b, t]), log_p(second[b, t])
        total = total + (p.exp() * (p - q)).sum()
    return total


def objective(name: str, scores: Tensor, target: Tensor, alpha: float, prefix: int = 0) -> Tensor:
    """(18) or (19) for the logits of the doubled batch."""
    first, second = scores.chunk(2)
    there, back = kl(first, second, target, prefix), kl(second, first, target, prefix)
    if name == "r_drop":
        both = nll(first, target, 0.1, prefix) + nll(second, target, 0.1, prefix)
        return both + alpha * (there + back) / 2
    return nll(first, target, 0.1, prefix) + alpha * there


def gradients(loss: Tensor, model: Any) -> list[Tensor]:
    parameters = [p for p in model.parameters() if p.requires_grad]
    return list(torch.autograd.grad(loss, parameters, retain_graph=True))


def same(ours: list[Tensor], expected: list[Tensor]) -> bool:
    return all(torch.allclose(a, b, rtol=1e-7, atol=1e-10) for a, b in zip(ours, expected))


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
    tokens = torch.randint(10, (80, 100))

    def zeros() -> Tensor:
        torch.manual_seed(1)
        with cut_second_half(model, 0.3):
            assert not (model["other"](tokens) == 0).any()
            embedding: Tensor = model["embed_tokens"](tokens)
        assert set(embedding.unique().tolist()) == {0, 1}
        assert torch.equal(embedding.amin(-1), embedding.amax(-1))
        return embedding[..., 0] == 0

    drawn = zeros()
    assert not drawn[:40].any()
    assert abs(drawn[40:].double().mean() - 0.3) < 0.03
    assert drawn[40:].any(0).all()
    assert drawn[40:].any(1).all()
    assert torch.equal(drawn, zeros())


def test_the_cut_ends_with_its_context_and_needs_an_embedding() -> None:
    model = make_model("stock-shared")
    with pytest.raises(IndexError, match="out of range"), cut_second_half(model, 0.3):
        model.encoder.embed_tokens(torch.tensor([[1000]]))
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(UserError, match="simcut needs a model with modules called embed_tokens"):
        cut_second_half(torch.nn.Linear(1, 1), 0.3).__enter__()


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
        assert torch.equal(loss, expected[0])
        assert size == expected[1]
        assert log.keys() == expected[2].keys()
        assert all(torch.equal(torch.as_tensor(log[key]), torch.as_tensor(expected[2][key])) for key in log)
    log = ours(model, sample)[2]
    assert logged(ours, [log]) == logged(stock, [log])


@pytest.mark.parametrize("dropout", [0.0, 0.3])
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


def test_simcut_with_alpha_zero_is_the_cross_entropy() -> None:
    model, sample = make_model("ours"), make_sample()
    loss, _, log = make("simcut", simcut_alpha=0.0, simcut_rate=0.4)(model, sample)
    expected = stock_criterion()(model, sample)[0]
    assert torch.allclose(loss, expected)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(gradients(loss, model), gradients(expected, model)))
    assert log["kl_loss"] > 0.01


@pytest.mark.parametrize("prefix", [0, 2])
@pytest.mark.parametrize("name", CONFIGS)
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
    with pytest.raises(UserError, match=r"^--simcut-rate must be at least 0 and below 1, but is 1.0$"):
        make("simcut", simcut_rate=1.0)
