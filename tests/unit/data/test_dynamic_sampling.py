"""`--sample-share`: equation (57), the frequencies of drawn pairs by enumeration, losses, and resumed trainings."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import LanguagePairDataset
from scipy.stats import chisquare
from support.distributed_runs import run, write_corpus
from support.models import batch, build, build_stock, task
from support.restarts import train_until
from support.trainings import binarised_text

from deepnmt.checkpoints.file import read
from deepnmt.criterions.loss_watch import watched
from deepnmt.data.dynamic_sampling import LOSSES, PairLosses, drawn_last, weights
from deepnmt.errors import UserError
from deepnmt.model.other_decoders import MODELS
from deepnmt.translation_task import DeepTranslationConfig, DeepTranslationTask

PAD, EOS = 1, 2


def test_weights_are_falls_between_the_smallest_and_the_largest() -> None:
    losses = PairLosses(4)
    losses.record(torch.tensor([0, 1, 2]), torch.tensor([4.0, 2.0, 5.0]))
    losses.record(torch.tensor([2, 0, 1]), torch.tensor([4.0, 2.0, 2.5]))
    falls = ((losses.before - losses.last) / losses.before)[:3].double().numpy()
    assert falls.tolist() == pytest.approx([0.5, -0.25, 0.2])
    assert weights(falls).tolist() == pytest.approx([1, 0, 0.6])
    assert weights(np.array([0.1, 0.1])).tolist() == [1, 1]


def test_pairs_are_drawn_in_proportion_to_their_weights() -> None:
    rates, number = np.array([1.0, 0.5, 0.2, 0.7]), 5_000
    expected: dict[frozenset[int], float] = {}
    # One pair after the other: of those that are left, in proportion.
    for first, second in permutations(range(4), 2):
        chance = rates[first] / rates.sum() * rates[second] / (rates.sum() - rates[first])
        drawn = frozenset((first, second))
        expected[drawn] = expected.get(drawn, 0) + chance
    found = dict.fromkeys(expected, 0)
    draw = np.random.default_rng(7)
    for _ in range(number):
        rest = drawn_last(rates, 0.5, draw)
        found[frozenset(range(4)) - {*rest.tolist()}] += 1
    assert chisquare(list(found.values()), [number * each for each in expected.values()]).pvalue > 1e-4
    # Of a share of 0.3, rounded up, two are drawn; a weight of 0 comes last.
    assert len(drawn_last(rates, 0.3, np.random.default_rng(1))) == 2
    assert drawn_last(np.array([0.0, 1, 1]), 0.6, np.random.default_rng(1)).tolist() == [0]


def test_pairs_rest_after_the_warm_up_and_are_chosen_once_per_epoch() -> None:
    losses = PairLosses(10)
    for epoch in (1, 2):
        losses.start(epoch, 0.5, 2, seed=1)
        assert not losses.rests.any()
        # Pair 9 is never seen twice.
        losses.record(torch.arange(9 + (epoch == 1)), torch.rand(9 + (epoch == 1)) + 1 / epoch)
    losses.start(3, 0.5, 2, seed=1)
    chosen = losses.rests.clone()
    assert (int(chosen.sum()), bool(chosen[9])) == (4, False)
    losses.record(torch.arange(5), torch.rand(5))
    losses.start(3, 0.5, 2, seed=1)
    assert torch.equal(losses.rests, chosen)
    again = PairLosses.of(losses.state(), "last.pt")
    for each in (losses, again):
        each.start(4, 0.5, 2, seed=1)
    assert torch.equal(losses.rests, again.rests)
    assert not torch.equal(losses.rests, chosen)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"before": 3}, r"last.pt: extra_state.pair_losses.before must be what --sample-share stores, but is not"),
        ({"rests": torch.zeros(3)}, r"pair_losses.rests must be what --sample-share stores, but is not"),
        ({"epoch": None}, r"pair_losses.epoch must be what --sample-share stores, but is not"),
        ({"last": torch.zeros(4)}, r"extra_state.pair_losses must have the same pairs in all parts, but has not"),
    ],
)
def test_damaged_losses_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PairLosses.of({**PairLosses(3).state(), **change}, "last.pt")


SOURCES, TARGETS = [[5, 6, 7], [10, 11], [5]], [[6, 7, 8, 9], [13, 14], [9, 8, 7]]


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("doubled", [False, True])
@pytest.mark.parametrize("stock", [False, True])
def test_losses_are_the_negative_log_probabilities_per_token(features: bool, doubled: bool, stock: bool) -> None:
    model = (build_stock({}).double() if stock else build()).train()
    inputs = batch(SOURCES, TARGETS)
    longest = max(map(len, TARGETS)) + 1
    target = torch.tensor([[*each, EOS] + [PAD] * (longest - len(each) - 1) for each in TARGETS])
    log_p = model(**inputs)[0].detach().log_softmax(-1)
    expected = [
        -sum(float(log_p[row, place, token]) for place, token in enumerate([*each, EOS])) / (len(each) + 1)
        for row, each in enumerate(TARGETS)
    ]
    # As criterions with two passes do, whose second pass comes after the batch's own pairs.
    given = {name: torch.cat([each, each]) for name, each in inputs.items()} if doubled else inputs
    with watched(model, {"target": target}, PAD) as found:
        model(**given, features_only=features)
        model(**given)  # another call of the same step does not count
    (losses,) = found
    assert losses.tolist() == pytest.approx(expected, rel=1e-5)
    with watched(model.eval(), {"target": target}, PAD) as found:
        model(**inputs)
    assert found == []


def test_losses_of_an_lstm() -> None:
    kind = MODELS["dlcl_transformer_lstm"]
    size = {"encoder_embed_dim": 16, "encoder_layers": 1, "decoder_embed_dim": 16, "decoder_layers": 1, "dropout": 0.0}
    model, inputs = kind.build_model(kind.OPTIONS(**size), task()).train(), batch(SOURCES[:1], TARGETS[:1])
    target = torch.tensor([[*TARGETS[0], EOS]])
    log_p = model(**inputs)[0].detach().log_softmax(-1)
    with watched(model, {"target": target}, PAD) as found:
        model(**inputs)
    assert float(found[0]) == pytest.approx(-float(log_p[0].gather(1, target[0][:, None]).mean()), rel=1e-5)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return binarised_text(tmp_path_factory.mktemp("text"))


COMMAND = ["--task=deep_translation", "--max-tokens=90", "--max-epoch=4", "--save-interval-updates=2"]
COMMAND += ["--disable-validation", "--share-all-embeddings"]


def trained(monkeypatch: pytest.MonkeyPatch, data: Path, save: Path, *more: str, killed_at: int | None = None) -> Any:
    train_until(monkeypatch, [str(data), *COMMAND], save, *more, killed_at=killed_at)
    return read(save / "checkpoint_last.pt")


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(values, other["model"][name]) for name, values in one["model"].items())


def test_a_share_of_one_leaves_the_data_alone(data: Path) -> None:
    made = DeepTranslationTask.setup_task(
        DeepTranslationConfig(data=str(data), dataset_impl="mmap", required_seq_len_multiple=1, sample_share=1.0)
    )
    made.load_dataset("train", combine=True)
    assert type(made.dataset("train")) is LanguagePairDataset
    assert made.losses is None
    assert made.get_checkpoint_dict() == {}


def test_a_training_killed_within_an_epoch_resumes_bit_for_bit(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = "--sample-share=0.6", "--criterion=label_smoothed_cross_entropy_fused", "--label-smoothing=0.1"
    whole = trained(monkeypatch, data, tmp_path / "whole", *share)
    losses = whole["extra_state"][LOSSES]
    assert (losses["epoch"], int(losses["rests"].sum())) == (4, 16)
    assert bool(torch.isfinite(losses["last"]).all())
    updates = whole["optimizer_history"][-1]["num_updates"]
    # Within the last epoch, in which pairs rest.
    trained(monkeypatch, data, tmp_path / "killed", *share, killed_at=updates - 1)
    begun = read(tmp_path / "killed" / "checkpoint_last.pt")["extra_state"]["train_iterator"]
    assert begun["epoch"] == 4
    assert begun["iterations_in_epoch"] > 0
    again = trained(monkeypatch, data, tmp_path / "killed", *share)
    assert same(whole, again)
    for name in ("before", "last", "rests"):
        assert torch.equal(losses[name], again["extra_state"][LOSSES][name])


def test_an_epoch_has_the_pairs_that_do_not_rest(data: Path) -> None:
    fixed = {"dataset_impl": "mmap", "required_seq_len_multiple": 1, "seed": 1}
    made = DeepTranslationTask.setup_task(DeepTranslationConfig(data=str(data), sample_share=0.7, **fixed))
    made.load_dataset("train", combine=True)
    assert made.losses is not None
    for number, epoch in enumerate((1, 2, 3), start=1):
        iterator = made.get_batch_iterator(made.dataset("train"), max_tokens=60, seed=1, epoch=epoch)
        seen = sorted(pair for each in iterator.next_epoch_itr() for pair in each["id"].tolist())
        assert seen == torch.nonzero(~made.losses.rests)[:, 0].tolist()
        assert len(seen) == (40 if epoch < 3 else 28)
        made.losses.record(torch.arange(40), torch.rand(40) + 3 / number)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_share": 0.0}, "^--sample-share must be above 0 and at most 1, but is 0.0$"),
        ({"sample_share": 1.5}, "^--sample-share must be above 0 and at most 1, but is 1.5$"),
        ({"sample_share": 0.5, "sample_warmup": 1}, "^--sample-warmup must be at least 2 and at most"),
        ({"sample_warmup": 3}, "^--sample-warmup needs --sample-share$"),
    ],
)
def test_options_out_of_range_are_refused(data: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DeepTranslationTask.setup_task(DeepTranslationConfig(data=str(data), **options))


def test_several_folders_are_refused(data: Path) -> None:
    config = DeepTranslationConfig(data=f"{data}:{data}", dataset_impl="mmap", sample_share=0.5)
    with pytest.raises(UserError, match=r"^--sample-share needs a single data folder, but DATA names several$"):
        DeepTranslationTask.setup_task(config).load_dataset("train", combine=True)


@pytest.mark.slow
@pytest.mark.parametrize("criterion", ["label_smoothed_cross_entropy", "label_smoothed_cross_entropy_r_drop"])
def test_two_processes_know_all_losses(tmp_path: Path, criterion: str) -> None:
    data = write_corpus(tmp_path / "data")
    options = ["--task", "deep_translation", "--sample-share", "0.5", "--criterion", criterion]
    trained = [run(options, processes, data, tmp_path / str(processes)) for processes in (1, 2)]
    one, two = (read(tmp_path / name / "checkpoint_last.pt")["extra_state"][LOSSES] for name in "12")
    assert torch.equal(one["rests"], two["rests"])
    assert 0 < int(one["rests"].sum()) < len(one["rests"])
    torch.testing.assert_close(one["last"], two["last"], rtol=1e-3, atol=1e-4)
    for name, values in trained[0].items():
        torch.testing.assert_close(values, trained[1][name], rtol=1e-3, atol=1e-4)
