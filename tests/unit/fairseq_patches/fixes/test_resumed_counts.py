"""What a training counts beside its updates: the same whether it is stopped in between or not."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator
from fairseq.models.ema.ema import EMA
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from support.models import build
from support.restarts import train_until
from support.trainings import binarised_text

import deepnmt
from deepnmt.checkpoints.file import read, write

deepnmt.register()
SMALL = ["--max-tokens=200", "--encoder-layers=1", "--decoder-layers=1", "--share-all-embeddings", "--dropout=0"]
SMALL += ["--keep-last-epochs=2"]
AVERAGE = [*SMALL, "--store-ema", "--ema-decay=0.9", "--no-epoch-checkpoints", "--disable-validation"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(binarised_text(tmp_path_factory.mktemp("text")))]


def rate(save: Path) -> float:
    value: float = read(save / "checkpoint_last.pt")["last_optimizer_state"]["param_groups"][0]["lr"]
    return value


@pytest.mark.slow
def test_a_plateau_is_found_over_restarts(data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [*SMALL, "--lr-scheduler=reduce_lr_on_plateau", "--lr-patience=1", "--lr-shrink=0.5", "--lr=1"]
    whole, stopped = [], []
    for epoch in range(1, 11):
        train_until(monkeypatch, data, tmp_path / f"whole{epoch}", *options, f"--max-epoch={epoch}")
        whole.append(rate(tmp_path / f"whole{epoch}"))
        train_until(monkeypatch, data, tmp_path / "stopped", *options, f"--max-epoch={epoch}")
        stopped.append(rate(tmp_path / "stopped"))
    assert stopped == whole
    assert len({*whole}) > 2


@pytest.mark.parametrize("reset", ["lr-scheduler", "optimizer"])
def test_a_schedule_that_is_reset_knows_no_earlier_loss(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reset: str
) -> None:
    options = [*SMALL, "--lr-scheduler=reduce_lr_on_plateau", "--lr-shrink=0.5", "--lr=1e-3"]
    options += ["--criterion=label_smoothed_cross_entropy_fused", "--label-smoothing=0"]
    train_until(monkeypatch, data, tmp_path / "old", *options, "--max-epoch=1")
    file = tmp_path / "old" / "checkpoint_last.pt"
    # Of another loss, which is higher.
    options += [f"--restore-file={file}", f"--reset-{reset}", "--label-smoothing=0.5", "--max-epoch=3"]
    train_until(monkeypatch, data, tmp_path / "new", *options)
    assert rate(tmp_path / "new") == 1e-3


@pytest.mark.parametrize("fp32", [False, True])
@pytest.mark.parametrize("half", [False, True])
def test_each_tensor_of_an_average_is_stepped_once(fp32: bool, half: bool) -> None:
    model = build({"share_all_embeddings": True}).float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model = model.half() if half else model
    average = EMA(
        model, Namespace(ema_decay=0.9, ema_fp32=fp32, ema_seed_model=None, ema_update_freq=1, ema_start_update=0)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1)
    for expected in (0.1, 0.19):
        average.step(model, 1)
        for name, value in average.get_model().named_parameters():
            assert value.float().mean().item() == pytest.approx(expected, rel=2e-3), name


@pytest.mark.slow
@pytest.mark.parametrize("anew", [False, True])
def test_the_order_of_equally_long_sentences_is_that_over_restarts(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, anew: bool
) -> None:
    options = [*SMALL, "--max-tokens=60", "--disable-validation", *(["--update-ordered-indices-seed"] if anew else [])]
    cut: list[list[list[int]]] = []
    stock = FairseqDataset.batch_by_size

    def noted(*args: Any, **kwargs: Any) -> Any:
        batches = stock(*args, **kwargs)
        cut.append([sorted(map(int, batch)) for batch in batches])
        return batches

    monkeypatch.setattr(FairseqDataset, "batch_by_size", noted)
    train_until(monkeypatch, data, tmp_path / "whole", *options, "--max-epoch=3")
    # Those of each epoch are its own, if it is asked for.
    assert (len({str(batches) for batches in cut}) == 1) == (not anew)
    for epoch in (1, 2, 3):
        train_until(monkeypatch, data, tmp_path / "stopped", *options, f"--max-epoch={epoch}")
    whole, stopped = (read(tmp_path / name / "checkpoint_last.pt")["model"] for name in ("whole", "stopped"))
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)


@pytest.mark.slow
def test_an_average_of_every_other_update_is_that_over_restarts(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [*AVERAGE, "--ema-update-freq=2", "--save-interval-updates=1"]
    train_until(monkeypatch, data, tmp_path / "whole", *options, "--max-update=4")
    for updates in (1, 2, 3, 4):
        train_until(monkeypatch, data, tmp_path / "stopped", *options, f"--max-update={updates}")
    whole, stopped = (
        read(tmp_path / name / "checkpoint_last.pt")["extra_state"]["ema"] for name in ("whole", "stopped")
    )
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)
    trained = read(tmp_path / "whole" / "checkpoint_last.pt")["model"]
    assert not all(torch.equal(whole[name], trained[name]) for name in whole)


@pytest.mark.parametrize("how", ["finetune", "resume"])
def test_an_average_begins_with_the_model_where_there_is_none(
    data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    plain = [*SMALL, "--no-epoch-checkpoints", "--disable-validation"]
    train_until(monkeypatch, data, tmp_path / "plain", *plain, "--max-update=2")
    model = tmp_path / "plain" / "checkpoint_last.pt"
    more = [f"--finetune-from-model={model}"] if how == "finetune" else []
    if how == "resume":
        (tmp_path / "save").mkdir()
        shutil.copy(model, tmp_path / "save")
    start = read(model)["model"]
    # With next to no rate, the model stays where it is, and so does its average.
    options = [*AVERAGE, *more, "--lr=1e-30", "--max-update=3", "--optimizer=sgd"]
    options += ["--reset-optimizer"] if how == "resume" else []
    train_until(monkeypatch, data, tmp_path / "save", *options)
    average = read(tmp_path / "save" / "checkpoint_last.pt")["extra_state"]["ema"]
    for name, value in average.items():
        if name.endswith("version"):
            continue  # no parameter
        torch.testing.assert_close(value, start[name].to(value.dtype))


def test_the_time_of_a_training_is_its_own(data: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [*SMALL, "--no-epoch-checkpoints", "--disable-validation"]
    train_until(monkeypatch, data, tmp_path / "long", *plain, "--max-update=2")
    last = tmp_path / "long" / "checkpoint_last.pt"
    contents = read(last)
    contents["extra_state"]["previous_training_time"] = 7200.0
    last.unlink()
    write(contents, last)
    limit = [*plain, "--stop-time-hours=1", "--max-update=6"]
    # It has had its time, and makes no update.
    before = last.read_bytes()
    assert train_until(monkeypatch, data, tmp_path / "long", *limit) == []
    assert last.read_bytes() == before
    # Another one that begins with its model has not.
    assert train_until(monkeypatch, data, tmp_path / "new", *limit, f"--finetune-from-model={last}") == [*range(6)]
    assert read(tmp_path / "new" / "checkpoint_last.pt")["extra_state"]["previous_training_time"] < 3600


class Numbers(FairseqDataset):  # type: ignore[misc]
    """Batches of one number."""

    def __getitem__(self, number: int) -> int:
        return number

    def __len__(self) -> int:
        return 40


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_epochs_after_a_curriculum_are_shuffled(workers: int) -> None:
    def iterator(epoch: int) -> EpochBatchIterator:
        return EpochBatchIterator(
            Numbers(), collate_fn=lambda found: found[0], batch_sampler=[[number] for number in range(40)],
            epoch=epoch, reuse_dataloader=True, num_workers=workers,
        )  # fmt: skip

    whole = iterator(1)
    orders = [list(whole.next_epoch_itr(shuffle=shuffle)) for shuffle in (False, False, True, True)]
    assert orders[0] == orders[1] == list(range(40))
    assert sorted(orders[2]) == sorted(orders[3]) == list(range(40))
    assert orders[2] != orders[3]
    for epoch in (3, 4):
        assert list(iterator(epoch).next_epoch_itr(shuffle=True)) == orders[epoch - 1]


def test_the_count_of_a_plateau_may_be_missing() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1))
    schedule: Any = ReduceLROnPlateauLRSchedule.__new__(ReduceLROnPlateauLRSchedule)
    schedule.lr_scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(torch.optim.SGD([parameter], lr=1.0))
    schedule.lr_scheduler.num_bad_epochs = 2
    assert schedule.state_dict()["num_bad_epochs"] == 2
    schedule.load_state_dict({"best": 0.5, "last_epoch": 3})
    assert (schedule.lr_scheduler.best, schedule.lr_scheduler.num_bad_epochs) == (0.5, 0)
