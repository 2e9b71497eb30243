"""`--pair-weights`: sum w_k L_k / sum w_k n_k, against float64 sums written out, and in whole trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.criterions.cross_entropy import CrossEntropyCriterionConfig
from support.models import batch, build, task
from support.restarts import train_until
from support.trainings import binarised_text
from torch import Tensor

from deepnmt.criterions.fused import FusedConfig, FusedLabelSmoothedCrossEntropy
from deepnmt.criterions.r_drop import RDrop, RDropConfig
from deepnmt.criterions.simcut import SimCutConfig
from deepnmt.criterions.two_sided_loss import TwoSidedConfig
from deepnmt.criterions.weighted_losses import weighted
from deepnmt.data.weighted_pairs import WeightedPairs, read_weights
from deepnmt.errors import UserError
from deepnmt.kernels import projection
from deepnmt.kernels.linear_cross_entropy import linear_cross_entropy
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

PAD, EOS = 1, 2
SOURCES = [[5, 6, 7, 8, 9], [10, 11, 12], [5, 13]]
TARGETS = [[6, 7, 8, 9], [13, 14, 5, 6, 7, 8], [9]]
N, C, V = 23, 6, 11


def smoothed(scores: Tensor, target: int, e: float) -> Tensor:
    """The loss of one position."""
    log_p = scores - scores.exp().sum().log()
    wanted = torch.full_like(log_p, e / (len(log_p) - 1))
    wanted[target] = 1 - e
    return -(wanted * log_p).sum()


@pytest.mark.parametrize("logits", [5 * V, 2**22])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_positions_count_as_much_as_they_are_to(
    smoothing: float, logits: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setitem(projection.LOGITS, "cpu", logits)
    monkeypatch.setattr(projection, "fewest_positions", lambda: 1)
    torch.manual_seed(3)
    h, weight = torch.randn(N, C).double().requires_grad_(), torch.randn(V, C).double().requires_grad_()
    target, counts = torch.randint(V, (N,)), torch.rand(N).double()
    counts[4] = 0
    losses = linear_cross_entropy(h, weight, target, smoothing, counts=counts)
    parts = [smoothed(weight @ row, int(right), smoothing) for row, right in zip(h, target)]
    loss = sum((count * part for count, part in zip(counts, parts)), torch.zeros(()))
    torch.testing.assert_close(losses.loss, loss.double(), rtol=1e-12, atol=0)
    nll = sum(smoothed(weight @ row, int(right), 0).item() for row, right in zip(h, target))
    assert float(losses.nll) == pytest.approx(nll)
    found = torch.autograd.grad(-2.5 * losses.loss, (h, weight))
    torch.testing.assert_close(found, torch.autograd.grad(-2.5 * loss, (h, weight)))


def test_the_gradients_of_half_precision_count_alike() -> None:
    torch.manual_seed(3)
    h, weight, target, counts = torch.randn(N, C), torch.randn(V, C), torch.randint(V, (N,)), torch.rand(N)
    gradients = []
    for dtype in (torch.float64, torch.bfloat16):
        inputs = [each.bfloat16().to(dtype).requires_grad_() for each in (h, weight)]
        loss = linear_cross_entropy(*inputs, target, 0.1, counts=counts.double()).loss
        gradients.append([each.double() for each in torch.autograd.grad(3 * loss, inputs)])
    for exact, rough in zip(*gradients):
        assert float((exact - rough).norm() / exact.norm()) < 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_counts_of_one_change_no_bit(dtype: torch.dtype) -> None:
    torch.manual_seed(5)
    results = []
    for counts in (None, torch.ones(N).double()):
        torch.manual_seed(5)
        h, weight = torch.randn(N, C).to(dtype).requires_grad_(), torch.randn(V, C).to(dtype).requires_grad_()
        losses = linear_cross_entropy(h, weight, torch.arange(N) % V, 0.1, counts=counts)
        results.append([losses.loss, losses.nll, *torch.autograd.grad(losses.loss, (h, weight))])
    assert all(torch.equal(one, other) for one, other in zip(*results))


def sample(numbers: list[int], weights: list[float] | None = None) -> dict[str, Any]:
    """A batch of some of the pairs, as the data set makes it."""
    targets = [TARGETS[number] for number in numbers]
    longest = max(map(len, targets)) + 1
    made: dict[str, Any] = {
        "net_input": batch([SOURCES[number] for number in numbers], targets),
        "target": torch.tensor([[*target, EOS] + [PAD] * (longest - len(target) - 1) for target in targets]),
        "ntokens": sum(map(len, targets)) + len(targets),
    }
    if weights is not None:
        made["pair_weights"] = torch.tensor(weights, dtype=torch.float64)
        made["weighted_tokens"] = sum(w * (len(target) + 1) for w, target in zip(weights, targets))
        made["weighted_pairs"] = sum(weights)
    return made


def normalised(made: dict[str, Any], sentence_avg: bool = False) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Loss divided by the sample size, and its gradients."""
    model = build(dropout=0.0)
    stub = task()
    criterion = FusedLabelSmoothedCrossEntropy(_with_padding(stub), sentence_avg, 0.1)
    loss, size, log = criterion(model.train(), made)
    assert log["sample_size"] == size
    parameters = [each for each in model.parameters() if each.requires_grad]
    return loss.detach() / size, tuple(gradient / size for gradient in torch.autograd.grad(loss, parameters))


def _with_padding(stub: Any) -> Any:
    stub.target_dictionary.pad()
    return stub


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_the_loss_is_the_weighted_mean(sentence_avg: bool) -> None:
    weights = [0.5, 2.0, 1.25]
    found, gradients = normalised(sample([0, 1, 2], weights), sentence_avg)
    sums, sizes, parts = 0.0, 0.0, []
    for number, weight in enumerate(weights):
        loss, gradient = normalised(sample([number]), sentence_avg)
        size = 1 if sentence_avg else len(TARGETS[number]) + 1
        sums, sizes = sums + weight * size * float(loss), sizes + weight * size
        parts.append([weight * size * each for each in gradient])
    assert float(found) == pytest.approx(sums / sizes, rel=1e-10)
    for gradient, *alone in zip(gradients, *parts):
        torch.testing.assert_close(gradient, sum(alone) / sizes)


def test_a_weight_of_two_is_the_pair_twice() -> None:
    found, gradients = normalised(sample([0, 1, 2], [1, 2, 1]))
    twice, others = normalised(sample([0, 1, 1, 2]))
    assert float(found) == pytest.approx(float(twice), rel=1e-10)
    for gradient, other in zip(gradients, others):
        torch.testing.assert_close(gradient, other)


def test_a_model_whose_features_cannot_be_projected_is_refused() -> None:
    model = build()
    model.find_unused_parameters = True
    criterion = FusedLabelSmoothedCrossEntropy(_with_padding(task()), False, 0.1)
    with pytest.raises(UserError, match=r"^--pair-weights cannot be used with this model: --find-unused-para"):
        criterion(model, sample([0], [1.0]))


NAMES = {"cross_entropy": CrossEntropyCriterionConfig, "label_smoothed_cross_entropy": FusedConfig}
NAMES |= {f"label_smoothed_cross_entropy_{name}": kind
          for name, kind in (("fused", FusedConfig), ("r_drop", RDropConfig), ("simcut", SimCutConfig),
                             ("two_sided", TwoSidedConfig))}  # fmt: skip


@pytest.mark.parametrize("sentence_avg", [False, True])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrapped", [False, True])
def test_other_losses_are_weighted_means_too(name: str, sentence_avg: bool, wrapped: bool) -> None:
    """Without dropout, pairs do not depend on their batch; R-Drop and SimCut have both passes' losses."""
    model, weights = build(two_sided=name.endswith("two_sided")).train(), [0.5, 2.0, 1.25]
    # An obstacle to the fused loss.
    model.find_unused_parameters = wrapped
    more: dict[str, Any] = {} if name == "cross_entropy" else {"label_smoothing": 0.1}
    more |= {"simcut_rate": 0.0} if name.endswith("simcut") else {}
    options = NAMES[name](_name=name, sentence_avg=sentence_avg, **more)
    criterion = CRITERION_REGISTRY[name].build_criterion(options, _with_padding(task()))
    loss, size, log = weighted(criterion)(model, sample([0, 1, 2], weights))
    alone = [criterion(model, sample([number])) for number in range(3)]
    # Fused, losses of both passes are in single precision.
    loose: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6, "check_dtype": False}
    torch.testing.assert_close(loss, sum(w * each[0] for w, each in zip(weights, alone)), **loose)
    assert size == log["sample_size"] == sum(w * each[1] for w, each in zip(weights, alone))
    assert log["loss"] == loss
    # As of the text without weights.
    if "nll_loss" in log:
        assert float(log["nll_loss"]) == pytest.approx(sum(float(each[2]["nll_loss"]) for each in alone))
    parameters = list(model.parameters())
    expected = [torch.autograd.grad(each[0], parameters) for each in alone]
    for found, *parts in zip(torch.autograd.grad(loss, parameters), *expected):
        torch.testing.assert_close(found, sum(w * part for w, part in zip(weights, parts)), **loose)


def test_divergences_have_the_weights_of_their_pairs() -> None:
    model = build(dropout=0.3).train()
    options = RDropConfig(label_smoothing=0.1, sentence_avg=False, r_drop_alpha=50.0)
    criterion = RDrop(_with_padding(task()), options)

    def loss(weights: list[float]) -> float:
        torch.manual_seed(4)
        return float(weighted(criterion)(model, sample([0, 1, 2], weights))[0])

    torch.manual_seed(4)
    plain = float(criterion(model, sample([0, 1, 2]))[0])
    assert loss([1, 1, 1]) == pytest.approx(plain, rel=1e-5)
    one, other, last = (loss([float(place == number) for place in range(3)]) for number in range(3))
    assert loss([0.5, 2.0, 1.25]) == pytest.approx(0.5 * one + 2 * other + 1.25 * last)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n-0.5\n2\n", "weights:2: must be a finite number of at least 0, but is '-0.5'"),
        ("1\nx\n2\n", "weights:2: must be a finite number of at least 0, but is 'x'"),
        ("1\n2\ninf\n", "weights:3: must be a finite number of at least 0, but is 'inf'"),
        ("1\n2\n", "weights: must have a weight for each of the 3 training pairs, but has 2"),
        ("score\n1\n2\n", "weights: must have a weight for each of the 3 training pairs, but has 2"),
        ("0\n0\n0\n", "weights: must have a weight above 0, but all 3 are 0"),
        (None, "--pair-weights: no such file '"),
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "weights"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_weights(path, 3)
    path.write_text("weight\n1\n0\n2.5\n")
    assert read_weights(path, 3).tolist() == [1, 0, 2.5]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binarised_text(tmp_path_factory.mktemp("text"))


def weights_file(folder: Path, weights: list[float]) -> Path:
    path = folder / "weights.txt"
    path.write_text("".join(f"{weight}\n" for weight in weights))
    return path


def test_batches_have_the_weights_of_their_pairs(data: Path, tmp_path: Path) -> None:
    weights = [n % 4 / 2 for n in range(40)]
    path = str(weights_file(tmp_path, weights))
    made = DeepTranslationTask.setup_task(
        DeepTranslationConfig(data=str(data), dataset_impl="mmap", required_seq_len_multiple=1, pair_weights=path)
    )
    made.load_dataset("train", combine=True)
    made.load_dataset("valid")
    assert not isinstance(made.dataset("valid"), WeightedPairs)
    # As with --combine-valid-subsets.
    made.load_dataset("valid", combine=True)
    assert not isinstance(made.dataset("valid"), WeightedPairs)
    seen = []
    for each in made.get_batch_iterator(made.dataset("train"), max_tokens=60, seed=1).next_epoch_itr():
        numbers = each["id"].tolist()
        seen += numbers
        assert each["pair_weights"].tolist() == [weights[number] for number in numbers]
        lengths = each["target"].ne(PAD).sum(1).tolist()
        assert each["weighted_tokens"] == sum(weights[number] * n for number, n in zip(numbers, lengths))
        assert each["weighted_pairs"] == sum(weights[number] for number in numbers)
    assert sorted(seen) == [number for number in range(40) if weights[number]]


def test_folders_in_turn_and_other_criterions_are_refused(data: Path, tmp_path: Path) -> None:
    path = str(weights_file(tmp_path, [1.0] * 40))
    made = DeepTranslationTask.setup_task(
        DeepTranslationConfig(
            data=f"{data}:{data}", dataset_impl="mmap", required_seq_len_multiple=1, pair_weights=path
        )
    )
    with pytest.raises(UserError, match=r"^--pair-weights needs a single data folder, but DATA names several$"):
        made.load_dataset("train", combine=True)
    other = [f"--pair-weights={path}", "--criterion=label_smoothed_cross_entropy_mrt", "--max-update=1"]
    message = r"^--criterion must be one of cross_entropy, .*_sided with --pair-weights, but is label_smoothed_cross_en"
    with pytest.MonkeyPatch.context() as monkeypatch, pytest.raises(UserError, match=message):
        train_until(monkeypatch, [str(data), "--task=deep_translation", "--max-tokens=60"], tmp_path / "save", *other)


def command(data: Path) -> list[str]:
    options = ["--task=deep_translation", "--criterion=label_smoothed_cross_entropy_fused", "--label-smoothing=0.1"]
    options += ["--max-tokens=60", "--max-update=4", "--save-interval-updates=2", "--keep-interval-updates=1"]
    return [str(data), *options, "--disable-validation", "--no-epoch-checkpoints"]


def trained(monkeypatch: pytest.MonkeyPatch, data: Path, save: Path, *more: str, killed_at: int | None = None) -> Any:
    train_until(monkeypatch, command(data), save, *more, killed_at=killed_at)
    return torch.load(save / "checkpoint_last.pt", weights_only=False)["model"]


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return all(torch.equal(values, other[name]) for name, values in one.items())


def test_weights_of_one_are_the_plain_training_and_others_resume_bit_for_bit(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = trained(monkeypatch, data, tmp_path / "plain")
    ones = f"--pair-weights={weights_file(tmp_path, [1.0] * 40)}"
    assert equal(plain, trained(monkeypatch, data, tmp_path / "ones", ones))

    draws = np.random.default_rng(1).random(40).tolist()
    weighted = f"--pair-weights={weights_file(tmp_path, draws)}"
    whole = trained(monkeypatch, data, tmp_path / "whole", weighted)
    assert not equal(plain, whole)
    trained(monkeypatch, data, tmp_path / "killed", weighted, killed_at=3)
    assert equal(whole, trained(monkeypatch, data, tmp_path / "killed", weighted))
