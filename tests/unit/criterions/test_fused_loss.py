"""The fused projection and loss against the formula, fairseq's criterion, and what memory it takes."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from support.distributed_runs import largest_difference, run, write_corpus
from support.models import PRE_NORM, batch, build, build_stock, scramble, task
from support.waits import Waits
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from deepnmt.criterions.fused import FusedConfig, FusedLabelSmoothedCrossEntropy, obstacle
from deepnmt.kernels import fast_path, projection
from deepnmt.kernels import linear_cross_entropy as module
from deepnmt.kernels.linear_cross_entropy import linear_cross_entropy

PAD, EOS = 1, 2
SOURCES = [[5, 6, 7, 8, 9], [10, 11, 12], [5, 13]]
TARGETS = [[6, 7, 8, 9], [13, 14, 5, 6, 7, 8], [9]]
N, C, V = 23, 6, 11


def formula(h: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor, int]:
    """Loss, loss without smoothing and number of hits, position by position."""
    loss = nll = h.new_zeros(())
    hits = 0
    for features, right in zip(h, target.tolist()):
        scores = torch.stack([(row * features).sum() for row in weight])
        log_p = scores - scores.max() - (scores - scores.max()).exp().sum().log()
        wanted = torch.full_like(log_p, smoothing / (len(weight) - 1))
        wanted[right] = 1 - smoothing
        loss, nll = loss - (wanted * log_p).sum(), nll - log_p[right]
        hits += int(scores.argmax()) == right
    return loss, nll, hits


def inputs(dtype: torch.dtype = torch.float64, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(3)
    h, weight = (scale * torch.randn(N, C)).to(dtype), torch.randn(V, C).to(dtype)
    return h.requires_grad_(), weight.requires_grad_(), torch.randint(V, (N,))


def exact(h: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return h.detach().double().requires_grad_(), weight.detach().double().requires_grad_()


@pytest.mark.parametrize("logits", [1, 5 * V, 7 * V + 1, 2**22])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_equals_the_formula(smoothing: float, logits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(projection.LOGITS, "cpu", logits)
    monkeypatch.setattr(projection, "fewest_positions", lambda: 1)
    h, weight, target = inputs()
    losses = linear_cross_entropy(h, weight, target, smoothing, accuracy=True)
    loss, nll, hits = formula(h, weight, target, smoothing)
    torch.testing.assert_close((losses.loss, losses.nll), (loss, nll), rtol=1e-12, atol=0)
    assert int(losses.correct) == hits > 0
    assert not losses.nll.requires_grad
    for _ in range(2):
        found = torch.autograd.grad(-2.5 * losses.loss, (h, weight), retain_graph=True)
        torch.testing.assert_close(found, torch.autograd.grad(-2.5 * loss, (h, weight), retain_graph=True))


def test_gradcheck() -> None:
    h, weight, target = inputs()
    assert torch.autograd.gradcheck(lambda h, w: linear_cross_entropy(h, w, target, 0.2).loss, (h, weight))


@pytest.mark.parametrize("frozen", ["features", "weight", "both"])
def test_frozen_parts(frozen: str) -> None:
    h, weight, target = inputs()
    h.requires_grad_(frozen == "weight")
    weight.requires_grad_(frozen == "features")
    losses, (loss, _, _) = linear_cross_entropy(h, weight, target, 0.1), formula(h, weight, target, 0.1)
    torch.testing.assert_close(losses.loss, loss)
    assert losses.loss.requires_grad == (frozen != "both")
    if frozen != "both":
        leaf = h if frozen == "weight" else weight
        torch.testing.assert_close(torch.autograd.grad(losses.loss, leaf), torch.autograd.grad(loss, leaf))


def test_no_positions() -> None:
    h, weight, target = inputs()
    losses = linear_cross_entropy(h[:0], weight, target[:0], 0.1, accuracy=True)
    assert [float(value.detach()) for value in losses] == [0.0, 0.0, 0.0]
    to_h, to_weight = torch.autograd.grad(losses.loss, (h, weight))
    assert not to_h.any()
    assert not to_weight.any()


@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0], ids=["usual", "sure", "underflow"])
def test_float32(scale: float) -> None:
    h, weight, target = inputs(torch.float32, scale)
    losses = linear_cross_entropy(h, weight, target, 0.1, accuracy=True)
    h64, weight64 = exact(h, weight)
    loss, nll, hits = formula(h64, weight64, target, 0.1)
    if scale == 300.0:
        assert (h64 @ weight64.t()).softmax(1).gather(1, target[:, None]).min() < 1e-40
    torch.testing.assert_close((losses.loss.double(), losses.nll.double()), (loss, nll), rtol=1e-6, atol=0)
    assert int(losses.correct) == hits
    expected = torch.autograd.grad(loss, (h64, weight64))
    for value, reference in zip(torch.autograd.grad(losses.loss, (h, weight)), expected):
        torch.testing.assert_close(value.double(), reference, rtol=0, atol=5e-6 * float(reference.abs().max()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("loss_scale", [1.0, 512.0])
def test_half_precision(dtype: torch.dtype, loss_scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(projection.LOGITS, "cpu", 5 * V)
    monkeypatch.setattr(projection, "fewest_positions", lambda: 1)
    h, weight, target = inputs(dtype, 4.0)
    losses = linear_cross_entropy(h, weight, target, 0.1)
    assert losses.loss.dtype == losses.nll.dtype == torch.float32
    h64, weight64 = exact(h, weight)
    loss, nll, _ = formula(h64, weight64, target, 0.1)
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close((losses.loss.double(), losses.nll.double()), (loss, nll), rtol=4 * unit, atol=0)
    found = torch.autograd.grad(loss_scale * losses.loss, (h, weight))
    for value, reference in zip(found, torch.autograd.grad(loss_scale * loss, (h64, weight64))):
        assert value.dtype == dtype
        assert (value.double() - reference).norm() < 4 * unit * reference.norm()


def test_small_gradients_of_a_scaled_loss_in_fp16() -> None:
    # A position that is nearly right: what its other types get is, unscaled, below the smallest number of FP16.
    h, weight, target = torch.tensor([[18.0, 0.0]]).half(), torch.eye(3, 2).half(), torch.tensor([0])
    h.requires_grad_()
    weight.requires_grad_()
    h64, weight64 = exact(h, weight)
    found = torch.autograd.grad(2.0**16 * linear_cross_entropy(h, weight, target, 0.0).loss, (h, weight))
    expected = torch.autograd.grad(2.0**16 * formula(h64, weight64, target, 0.0)[0], (h64, weight64))
    for value, reference in ((found[0][0, 1:], expected[0][0, 1:]), (found[1][1:, :1], expected[1][1:, :1])):
        assert 0 < reference.abs().max() / 2**16 < 2**-21
        torch.testing.assert_close(value.double(), reference, rtol=1e-2, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("scale", [1.0, 300.0], ids=["usual", "underflow"])
def test_as_on_a_gpu(dtype: torch.dtype, scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same values, a few large blocks, and no question for them."""
    for where in (projection, module):
        monkeypatch.setattr(where, "on_cpu", lambda device: False)
    monkeypatch.setitem(projection.LOGITS, "other", 10 * V)
    h, weight, target = inputs(dtype, scale if dtype != torch.float16 else 4.0)
    with Waits() as counted:
        losses = linear_cross_entropy(h, weight, target, 0.1)
        found = torch.autograd.grad(losses.loss, (h, weight))
    assert counted.waits == {}
    h64, weight64 = exact(h, weight)
    loss, nll, _ = formula(h64, weight64, target, 0.1)
    unit = max(torch.finfo(dtype).eps, 1e-7)
    torch.testing.assert_close((losses.loss.double(), losses.nll.double()), (loss, nll), rtol=6 * unit, atol=0)
    for value, reference in zip(found, torch.autograd.grad(loss, (h64, weight64))):
        assert (value.double() - reference).norm() < 20 * unit * reference.norm()


def test_blocks_suit_the_device() -> None:
    blocks = {device: list(projection.pieces(3500, 32768, torch.device(device))) for device in ("cpu", "meta")}
    assert [len(found) for found in blocks.values()] == [28, 2]
    assert [sum(s.stop - s.start for s in found) for found in blocks.values()] == [3500, 3500]


@pytest.mark.parametrize(
    ("onednn", "types", "rows"),
    [(False, 1000, 1048), (False, 10000, 128), (True, 10000, 256), (True, 65536, 64), (False, 2**23, 1)],
)
def test_a_block_fits_a_cores_cache_unless_products_would_be_slow(
    monkeypatch: pytest.MonkeyPatch, onednn: bool, types: int, rows: int
) -> None:
    monkeypatch.setattr(projection, "onednn_is_faster", lambda: onednn)
    first, *_ = projection.pieces(3500, types, torch.device("cpu"))
    assert first == slice(0, rows)


class Largest(TorchDispatchMode):
    """The most elements that a result has."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.elements = max(self.elements, result.numel())
        return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_logits_are_never_held(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(projection.LOGITS, "cpu", 1000)
    monkeypatch.setattr(projection, "fewest_positions", lambda: 1)
    h = torch.randn(200, 8, dtype=dtype, requires_grad=True)
    weight = torch.randn(100, 8, dtype=dtype, requires_grad=True)
    with Largest() as largest:
        linear_cross_entropy(h, weight, torch.randint(100, (200,)), 0.1).loss.backward()
    # 10 positions at a time, or all features; not 200 x 100 logits.
    assert largest.elements == 200 * 8


def sample() -> dict[str, Any]:
    net_input = batch(SOURCES, TARGETS)
    longest = max(map(len, TARGETS)) + 1
    target = torch.tensor([[*t, EOS] + [PAD] * (longest - len(t) - 1) for t in TARGETS])
    return {"net_input": net_input, "target": target, "ntokens": sum(len(t) + 1 for t in TARGETS)}


def both(**options: Any) -> tuple[Any, Any]:
    """fairseq's criterion, and ours."""
    settings = {"label_smoothing": 0.1, "sentence_avg": False, **options}
    ours = FusedLabelSmoothedCrossEntropy.build_criterion(FusedConfig(**settings), task())
    return LabelSmoothedCrossEntropyCriterion(task(), **settings), ours


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """fairseq's log-softmax is float32 for any input."""
    monkeypatch.setattr(utils, "log_softmax", lambda x, dim, onnx_trace=False: torch.log_softmax(x, dim))


MODELS: dict[str, dict[str, Any]] = {
    "separate": {},
    "shared": {"share_all_embeddings": True},
    "decoder-shared": {"share_decoder_input_output_embed": True, **PRE_NORM},
    "projections": {"decoder_input_dim": 12, "decoder_output_dim": 20},
}
CRITERIA: dict[str, dict[str, Any]] = {
    "default": {},
    "accuracy": {"report_accuracy": True},
    "no smoothing": {"label_smoothing": 0.0},
    "prefix": {"ignore_prefix_size": 2, "report_accuracy": True},
    "no prefix": {"ignore_prefix_size": -1, "report_accuracy": True},
    "sentence average": {"sentence_avg": True},
}


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("stock", [True, False], ids=["fairseq's model", "our model"])
@pytest.mark.parametrize("criterion", CRITERIA.values(), ids=CRITERIA)
@pytest.mark.parametrize("options", MODELS.values(), ids=MODELS)
def test_equals_fairseqs_criterion(options: dict[str, Any], criterion: dict[str, Any], stock: bool) -> None:
    model: Any = build_stock(options).double() if stock else build(options)
    scramble(model)
    found = []
    for which in both(**criterion):
        model.zero_grad()
        loss, sample_size, log = which(model.train(), sample())
        loss.backward()
        found.append((loss.detach(), sample_size, {name: torch.as_tensor(value) for name, value in log.items()}))
        found[-1] += ({name: p.grad.clone() for name, p in model.named_parameters()},)
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-12)
    logs = [[{**log, "ntokens": 9} for log in (found[i][2], found[i][2])] for i in range(2)]
    reduced = []
    for which, log in zip(both(**criterion), logs):
        with metrics.aggregate() as meters:
            which.reduce_metrics(log)
        reduced.append(meters.get_smoothed_values())
    assert reduced[0].keys() == reduced[1].keys() >= {"loss", "nll_loss", "ppl"}
    assert [float(v) for v in reduced[0].values()] == pytest.approx([float(v) for v in reduced[1].values()])


@pytest.mark.usefixtures("in_float64")
def test_validation_and_losses_of_each_position() -> None:
    model, (stock, ours) = build(), both(report_accuracy=True)
    with torch.no_grad():
        expected, found = stock(model, sample()), ours(model, sample())
    assert not found[0].requires_grad
    assert found[2].keys() == expected[2].keys()
    torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=0)
    torch.testing.assert_close(ours(model, sample(), reduce=False)[0], stock(model, sample(), reduce=False)[0])


@pytest.mark.parametrize("options", [{}, {"decoder_output_dim": 20}], ids=["plain", "projections"])
def test_mixed_precision(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The projection is in the half type, as that of fairseq's own output layer is."""
    types, multiply = set(), torch.mm
    model, found = build(options).float(), []
    types_of_words = len(model.decoder.output_projection.weight)

    def product(x: Tensor, y: Tensor, **more: Any) -> Tensor:
        if types_of_words in (*x.shape, *y.shape):
            types.add(x.dtype)
        return multiply(x, y, **more)

    monkeypatch.setattr(torch, "mm", product)
    for criterion in both():
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = criterion(model, sample())[0]
        loss.backward()
        assert loss.dtype == torch.float32
        found.append((float(loss.detach()), torch.cat([parameter.grad.flatten() for parameter in model.parameters()])))
    assert types == {torch.bfloat16}
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-2)
    assert (found[1][1] - found[0][1]).norm() < 0.03 * found[0][1].norm()


def test_no_more_waits_than_fairseqs_criterion() -> None:
    model, waits = build(), []
    for criterion in both():
        with Waits() as counted:
            criterion(model, sample())[0].backward()
        waits.append(counted.waits)
    mine = {name: waits[1].get(name, 0) - waits[0].get(name, 0) for name in waits[1]}
    # The positions that count; `any` of the CPU, for a probability that is too small, is not asked on a GPU.
    assert {name: count for name, count in mine.items() if count > 0} == {
        "aten.nonzero.default": 1,
        "aten._local_scalar_dense.default": 1,
    }


def test_padding_changes_nothing() -> None:
    model, (_, ours) = build(), both(report_accuracy=True)
    padded = sample()
    column = torch.full((3, 2), PAD)
    tokens = padded["net_input"]["prev_output_tokens"]
    padded["net_input"]["prev_output_tokens"] = torch.cat([tokens, column], dim=1)
    padded["target"] = torch.cat([padded["target"], column], dim=1)
    found = []
    for each in (sample(), padded):
        model.zero_grad()
        loss, _, log = ours(model, each)
        loss.backward()
        gradients = [parameter.grad.clone() for parameter in model.parameters()]
        found.append(([loss.detach(), *gradients], log["n_correct"], log["total"]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-8, atol=1e-10)


class OwnOutput(nn.Module):
    """A decoder's class is what says how it projects."""


def obstacles() -> dict[str, tuple[Any, str]]:
    adaptive, bias, own = build(adaptive_softmax_cutoff=[5, 10]), build(), build()
    bias.decoder.output_projection.bias = nn.Parameter(torch.ones(24).double())
    own.decoder.__class__ = type("Own", (type(own.decoder),), {"output_layer": lambda self, features: features})
    unused = build()
    unused.find_unused_parameters = True
    return {
        "adaptive": (adaptive, "the model has an adaptive softmax"),
        "bias": (bias, "the model's output projection is not one whole matrix"),
        "own": (own, "the model has an output layer of its own"),
        "unused": (unused, "--find-unused-parameters is on"),
        "other": (SimpleNamespace(decoder=OwnOutput()), "the model is not fairseq's or this package's Transformer"),
    }


@pytest.mark.parametrize("kind", ["adaptive", "bias", "unused"])
def test_other_models_are_left_to_fairseq(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path, "logged", set())
    model, reason = obstacles()[kind]
    stock, ours = both()
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            torch.testing.assert_close(ours(model, sample())[0], stock(model, sample())[0], rtol=0, atol=0)
    assert [message for message in caplog.messages if "loss" in message] == [f"fused loss is not used: {reason}"]


def test_obstacle() -> None:
    for model, reason in obstacles().values():
        assert obstacle(model) == reason
    assert obstacle(build()) is None
    assert obstacle(build_stock({})) is None


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--share-all-embeddings"]], ids=["separate", "shared"])
def test_two_processes_train_as_one_does_with_fairseqs(options: list[str], tmp_path: Path) -> None:
    data = write_corpus(tmp_path / "data")
    one = run(options, 1, data, tmp_path / "one")
    two = run([*options, "--criterion", "label_smoothed_cross_entropy_fused"], 2, data, tmp_path / "two")
    assert largest_difference(one, two) < 1e-5
