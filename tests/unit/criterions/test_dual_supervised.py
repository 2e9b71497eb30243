"""Dual supervised learning against its formula in float64, written out pair by pair."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from support.consistency_reference import EOS, PAD, SOURCES, TARGETS, gradients, make_sample, nll, same
from support.data_folders import SENTENCES, data_folder
from support.dual_models import build_dual
from support.models import build, dictionary
from torch import Tensor

import deepnmt
from deepnmt.criterions import dual_supervised
from deepnmt.criterions.dual_supervised import PASSES, DualSupervised, DualSupervisedConfig, Pass
from deepnmt.criterions.weighted_losses import weighted
from deepnmt.data.exchanged_pairs import exchanged
from deepnmt.data.marginals import read_marginals
from deepnmt.errors import UserError

MARGINALS = [[-3.5, -4.25], [-6.0, -2.5], [-1.75, -5.0]]


def make(weight: float = 0.3, **more: Any) -> DualSupervised:
    words = dictionary()
    task = TranslationTask(TranslationConfig(), words, words)
    criterion = DualSupervised(
        task, DualSupervisedConfig(**{"label_smoothing": 0.1, "sentence_avg": False, "dual_weight": weight, **more})
    )
    criterion.marginals = torch.tensor(MARGINALS, dtype=torch.float64)
    return criterion


def sample() -> dict[str, Any]:
    # Their numbers in the training set are not their places in the batch.
    return {**make_sample(), "id": torch.tensor([2, 0, 1])}


def logits(model: Any, source: list[int], target: list[int]) -> Tensor:
    """Of one pair without padding, 1 x T x V."""
    tokens = torch.tensor([[*source, EOS]])
    inputs = {"src_tokens": tokens, "src_lengths": torch.tensor([tokens.size(1)])}
    result: Tensor = model(**inputs, prev_output_tokens=torch.tensor([[EOS, *target]]))[0]
    return result


def log_p(model: Any, source: list[int], target: list[int]) -> Tensor:
    scores = torch.log_softmax(logits(model, source, target)[0], dim=-1)
    return torch.stack([row[token] for row, token in zip(scores, [*target, EOS])]).sum()


def formula(model: Any, weight: float, sentence_avg: bool = False, pairs: tuple[float, ...] = (1, 1, 1)) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    n_x, n_y = (sum(w * (len(each) + 1) for w, each in zip(pairs, side)) for side in (SOURCES, TARGETS))
    factor = 1.0 if sentence_avg else n_y / n_x
    for w, number, x, y in zip(pairs, (2, 0, 1), SOURCES, TARGETS):
        total = total + w * nll(logits(model.fwd, x, y), torch.tensor([[*y, EOS]]), 0.1)
        total = total + w * factor * nll(logits(model.bwd, y, x), torch.tensor([[*x, EOS]]), 0.1)
        p_x, p_y = MARGINALS[number]
        total = total + w * weight * (p_x + log_p(model.fwd, x, y) - p_y - log_p(model.bwd, y, x)) ** 2
    return total


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_pairs_may_have_weights(sentence_avg: bool) -> None:
    weights, model = (0.125, 0.05, 0.25), build_dual().train()
    batch = {**sample(), "pair_weights": torch.tensor(weights, dtype=torch.float64)}
    loss, size, log = weighted(make(sentence_avg=sentence_avg))(model, batch)
    expected = formula(model, 0.3, sentence_avg, weights)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0)
    assert same(gradients(loss, model), gradients(expected, model))
    words = sum(w * (len(y) + 1) for w, y in zip(weights, TARGETS))
    assert size == log["sample_size"] == pytest.approx(sum(weights) if sentence_avg else words)


@pytest.mark.parametrize("sentence_avg", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_loss_and_gradients_are_the_formula(sentence_avg: bool) -> None:
    model = build_dual(encoder_norm="pre", decoder_norm="b2t", encoder_max_relative_length=2).train()
    loss, size, log = make(sentence_avg=sentence_avg)(model, sample())
    expected = formula(model, 0.3, sentence_avg)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0)
    assert same(gradients(loss, model), gradients(expected, model))
    # The gap has a gradient of its own.
    assert not same(gradients(loss, model), gradients(formula(model, 0.0, sentence_avg), model))
    n_y = sum(len(each) + 1 for each in TARGETS)
    assert (size, log["ntokens"], log["nsentences"]) == (3 if sentence_avg else n_y, n_y, 3)
    gap = (formula(model, 1.0) - formula(model, 0.0)).detach()
    torch.testing.assert_close(log["gap"], gap)
    plain = sum(nll(logits(model.bwd, y, x), torch.tensor([[*x, EOS]]), 0.0) for x, y in zip(SOURCES, TARGETS))
    torch.testing.assert_close(log["backward_nll_loss"], plain.detach())
    assert log["backward_ntokens"] == sum(len(each) + 1 for each in SOURCES)


def test_the_gradient_is_the_slope_of_the_loss() -> None:
    model, criterion = build_dual().train(), make(weight=0.5)
    found = gradients(criterion(model, sample())[0], model)
    torch.manual_seed(5)
    directions = [torch.randn_like(each) for each in found]
    ends = []
    for step in (1e-5, -1e-5):
        with torch.no_grad():
            for parameter, direction in zip(model.parameters(), directions):
                parameter.add_(direction, alpha=step)
            ends.append(criterion(model, sample())[0])
            for parameter, direction in zip(model.parameters(), directions):
                parameter.add_(direction, alpha=-step)
    slope = (ends[0] - ends[1]) / 2e-5
    along = sum((each * direction).sum() for each, direction in zip(found, directions))
    torch.testing.assert_close(along, slope, rtol=1e-6, atol=0)


def test_a_table_of_bayes_has_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    joint = torch.rand(3, 3, dtype=torch.float64)
    joint /= joint.sum()
    of_x, of_y = joint.sum(1), joint.sum(0)
    cells = list(itertools.product(range(3), range(3)))
    forward = torch.stack([(joint[x, y] / of_x[x]).log() for x, y in cells])
    backward = torch.stack([(joint[x, y] / of_y[y]).log() for x, y in cells])
    found = iter([forward, backward, forward, backward + 0.5])
    monkeypatch.setattr(dual_supervised, "pair_log_probs", lambda *_: next(found))
    criterion, model, features = make(), build_dual(), [torch.zeros(9, 1, 1)] * 2
    criterion.marginals = torch.stack([torch.stack([of_x[x].log(), of_y[y].log()]) for x, y in cells])
    pairs = [Pass("fwd", {}, torch.zeros(9, 1)), Pass("bwd", {}, torch.zeros(9, 1))]
    numbers = torch.arange(9)
    torch.testing.assert_close(criterion.gaps(model, numbers, pairs, features), torch.zeros(9, dtype=torch.float64))
    torch.testing.assert_close(criterion.gaps(model, numbers, pairs, features), torch.full_like(forward, -0.5))


def test_weight_zero_and_validation_are_both_plain_losses() -> None:
    model = build_dual().train()
    loss, _, log = make(weight=0.0)(model, sample())
    torch.testing.assert_close(loss, formula(model, 0.0), rtol=1e-10, atol=0)
    assert "gap" not in log
    validated = make(weight=0.3)
    validated.marginals = None
    torch.testing.assert_close(validated(model.eval(), sample())[0], loss)
    with pytest.raises(UserError, match=r"^--marginals must be given to train with --criterion dual_supervised and"):
        validated(model.train(), sample())


def test_further_passes_join_the_pairs_or_the_loss() -> None:
    model, turned = build_dual().train(), exchanged(make_sample(), PAD, EOS)
    plain = make(weight=0.0)
    loss, size, _ = plain(model, sample())
    more = Pass("bwd", turned["net_input"], turned["target"], 0.5)
    joined, joined_size, _ = plain(model, {**sample(), PASSES: [more]})
    # The same pairs again, by half: the mean over bwd's pairs is the same.
    assert joined_size == size
    torch.testing.assert_close(joined, loss)
    more = Pass("fwd", sample()["net_input"], sample()["target"], 0.5)
    joined, joined_size, _ = plain(model, {**sample(), PASSES: [more]})
    assert joined_size == 1.5 * size
    torch.testing.assert_close(joined, 1.5 * loss)
    counts = torch.randn(sample()["target"].shape, dtype=torch.float64)
    counted = Pass("fwd", sample()["net_input"], sample()["target"], 0.5, counts)
    added, added_size, _ = plain(model, {**sample(), PASSES: [counted]})
    expected = torch.zeros((), dtype=torch.float64)
    for row, x, y in zip(counts, SOURCES, TARGETS):
        scores = torch.log_softmax(logits(model.fwd, x, y)[0], -1)
        expected = expected - sum(row[t] * scores[t, token] for t, token in enumerate([*y, EOS]))
    assert added_size == size
    torch.testing.assert_close(added - loss, 0.5 * expected)


def test_pairs_are_exchanged_as_fairseq_would_batch_them() -> None:
    turned = exchanged(make_sample(extra_padding=1), PAD, EOS)
    longest = max(map(len, TARGETS)) + 2
    source = [[PAD] * (longest - len(y) - 1) + [*y, EOS] for y in TARGETS]
    assert turned["net_input"]["src_tokens"].tolist() == source
    assert turned["net_input"]["src_lengths"].tolist() == [len(y) + 1 for y in TARGETS]
    longest = max(map(len, SOURCES)) + 2
    for begin, name in (((), "target"), ((EOS,), "prev_output_tokens")):
        rows = [[*begin, *x, *([] if begin else [EOS])] for x in SOURCES]
        found = turned["target"] if name == "target" else turned["net_input"][name]
        assert found.tolist() == [row + [PAD] * (longest - len(row)) for row in rows]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dual_weight": -1.0}, r"^--dual-weight must be a finite number of at least 0, but is -1.0$"),
        ({"dual_weight": float("nan")}, "^--dual-weight must be a finite number of at least 0, but is nan$"),
        ({"ignore_prefix_size": 1}, "^--ignore-prefix-size must be 0 with --criterion dual_supervised, but is 1$"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(**{"weight": 0.0, **options})


def test_other_models_are_refused() -> None:
    with pytest.raises(UserError, match=r"^--criterion dual_supervised needs --arch dlcl_dual$"):
        make(weight=0.0)(build(), sample())


def test_marginals_are_as_long_as_the_training_text(tmp_path: Path) -> None:
    deepnmt.register()
    from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

    data = data_folder(tmp_path / "data")
    path = tmp_path / "marginals.tsv"
    config = DeepTranslationConfig(data=str(data), source_lang="de", target_lang="en", train_subset="train")
    task = DeepTranslationTask.setup_task(config)
    options = {"label_smoothing": 0.1, "sentence_avg": False, "dual_weight": 0.01, "marginals": str(path)}
    lines = ["-1.5\t-2.5"] * len(SENTENCES)
    for text, message in (
        (None, r"^--marginals: no such file '.*marginals\.tsv'$"),
        (lines[1:], r"marginals\.tsv: must have a line for each of the 3 training pairs, but has 2$"),
        ([*lines[1:], "-1.5"], r"marginals\.tsv:4: must be two finite numbers of at most 0, but is '-1\.5'$"),
        ([*lines[1:], "nan\t-1"], r"marginals\.tsv:4: must be two finite numbers of at most 0, but is 'nan"),
        ([*lines[1:], "0.5\t-1"], r"marginals\.tsv:4: must be two finite numbers of at most 0, but is '0\.5"),
    ):
        if text is not None:
            path.write_text("\n".join(["de\ten", *text]) + "\n", encoding="utf-8")
        with pytest.raises(UserError, match=message):
            DualSupervised(task, DualSupervisedConfig(**options))
    path.write_text("\n".join(["de\ten", *lines]) + "\n", encoding="utf-8")
    assert read_marginals(path, 3, ("de", "en")).tolist() == [[-1.5, -2.5]] * 3
    assert read_marginals(path, 3, ("en", "de")).tolist() == [[-2.5, -1.5]] * 3
    with pytest.raises(UserError, match=r"marginals\.tsv:1: must name the languages en and fr, but is 'de\ten'$"):
        read_marginals(path, 3, ("en", "fr"))
    DualSupervised(task, DualSupervisedConfig(**options))
    task.cfg.data = f"{data}:{data}"
    with pytest.raises(UserError, match=r"^--marginals needs a single data folder, but DATA names several$"):
        DualSupervised(task, DualSupervisedConfig(**options))
