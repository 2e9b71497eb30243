"""`deepnmt shrink` and its faults, a line each and nothing written; and training from what it writes."""

from __future__ import annotations

import errno
import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq_cli import generate, train
from support.checkpoints import BAD_STATES, checkpoint, load, run_command
from support.slow import slow_but
from support.trainings import DUMMY, LAYOUTS, binarised_text, fairseq_train, moments

from deepnmt.checkpoints.state import PATIENCE

command = functools.partial(run_command, "shrink")


def refused(*words: object) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        command(*words)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "4.pt"
    torch.save(checkpoint(encoder_groups="3", decoder_groups="none"), path)
    return path


FAULTS: list[tuple[list[str], list[str]]] = [
    (["--encoder-every=1"], ["--encoder-every must be from 2 to the present depth, 4, but is 1"]),
    (
        ["--encoder-every=5", "--decoder-every=-2"],
        [
            "--encoder-every must be from 2 to the present depth, 4, but is 5",
            "--decoder-every must be from 2 to the present depth, 4, but is -2",
        ],
    ),
    (["--encoder-keep=1,2,3,4"], ["--encoder-keep must leave out at least one of the 4 layers, but is '1,2,3,4'"]),
    (["--decoder-keep=2,5"], ["--decoder-keep must name layers from 1 to the present depth, 4, but names 5"]),
    (["--decoder-keep=0,2"], ["--decoder-keep must name layers from 1 to the present depth, 4, but names 0"]),
    (["--encoder-keep=3,1"], ["--encoder-keep must name layers in their order, each once, but is '3,1'"]),
    (["--encoder-keep=1,1"], ["--encoder-keep must name layers in their order, each once, but is '1,1'"]),
    (["--encoder-keep=1-3"], ["--encoder-keep must be layers such as 1,3,5, counted from 1, but is '1-3'"]),
    (["--encoder-keep="], ["option --encoder-keep needs a value (see --help)"]),
    (
        ["--encoder-keep=1", "--encoder-every=2"],
        ["argument --encoder-every: not allowed with argument --encoder-keep (see --help)"],
    ),
    (["--encoder-every=x"], ["argument --encoder-every: invalid int value: 'x' (see --help)"]),
    ([], ["--encoder-keep, --encoder-every, --decoder-keep or --decoder-every must be given"]),
]


@pytest.mark.parametrize(("words", "lines"), FAULTS)
def test_what_is_not_possible(
    words: list[str], lines: list[str], saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(saved, tmp_path / "out.pt", *words)
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [f"deepnmt shrink: error: {line}" for line in lines]
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("case", BAD_STATES.values(), ids=BAD_STATES)
def test_checkpoints_that_are_not_as_they_must_be(
    case: tuple[Callable[[dict[str, Any]], Any], str], saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, line = case
    path = tmp_path / "in.pt"
    torch.save(change(load(saved)), path)
    refused(path, tmp_path / "out.pt", "--decoder-every=2")
    assert capsys.readouterr().err == f"deepnmt shrink: error: {line.format(path=path)}\n"
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_cannot_be_read_or_written(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, target, option = saved.read_bytes(), tmp_path / "out.pt", "--decoder-every=2"
    cut = tmp_path / "cut.pt"
    cut.write_bytes(whole[: len(whole) // 2])
    for source, out, line in (
        (tmp_path / "no.pt", target, f"{tmp_path / 'no.pt'}: no such checkpoint"),
        (cut, target, f"{cut}: must be a whole fairseq checkpoint, but is truncated: only partly written or copied"),
        (saved, saved, f"{saved}: the new checkpoint must not be the old one"),
        (saved, cut, f"{cut}: the new checkpoint exists already"),
        (saved, tmp_path / "no" / "out.pt", f"{tmp_path / 'no'}: the folder of the new checkpoint was not found"),
    ):
        refused(source, out, option)
        assert re.fullmatch(f"deepnmt shrink: error: {line}\n", capsys.readouterr().err)

    def full_disk(state: Any, file: Any) -> None:
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    refused(saved, target, option)
    assert capsys.readouterr().err == f"deepnmt shrink: error: cannot write {target}: No space left on device\n"
    assert list(tmp_path.iterdir()) == [cut]
    assert saved.read_bytes() == whole


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        command("--help")
    printed = capsys.readouterr().out
    for option in ("--encoder-keep", "--encoder-every", "--decoder-keep", "--decoder-every", "--keep-schedule"):
        assert f"  {option}" in printed


@pytest.mark.parametrize("name", slow_but(["half-flat"], ["single", "half-flat"]))
def test_training_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Flat gradients ask for the GPU; the CPU has no number.
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)
    deep, shallow = tmp_path / "deep" / "checkpoint_last.pt", tmp_path / "shallow" / "checkpoint_last.pt"
    shallow.parent.mkdir()
    fairseq_train(monkeypatch, DUMMY, deep.parent, *LAYOUTS[name], "--max-update=11")
    capsys.readouterr()
    command(deep, shallow, "--encoder-every", "2", "--decoder-keep", "2")
    out = capsys.readouterr().out.splitlines()
    assert out[:3] == ["encoder layers: 3 -> 2", "encoder groups: 1 -> 1", "encoder layer 1 <- layer 1"]
    assert out[-3:] == [
        "optimizer: moments dropped",
        "learning rate: back to its peak at update 11",
        f"{shallow} is ready",
    ]
    before, state = load(deep), load(shallow)
    assert moments(state) == {}
    assert state["last_optimizer_state"].get("loss_scale") == before["last_optimizer_state"].get("loss_scale")
    assert state["extra_state"]["train_iterator"] == before["extra_state"]["train_iterator"]

    shallower = ["--encoder-layers=2", "--decoder-layers=1", "--max-update=13", *LAYOUTS[name]]
    rates = fairseq_train(monkeypatch, DUMMY, shallow.parent, *shallower)
    # (17) with a warm-up of two: the peak, then sqrt(2 / 3) of it.
    assert rates == pytest.approx({11: 0.01, 12: 0.01 * (2 / 3) ** 0.5}, rel=1e-6)
    final = load(shallow)
    assert final["optimizer_history"][-1]["num_updates"] == 13
    assert {values["step"] for values in moments(final).values()} == {2}

    command(deep, tmp_path / "kept.pt", "--encoder-every", "2", "--keep-schedule")
    assert capsys.readouterr().out.splitlines()[-2] == "learning rate: continues as before"
    assert load(tmp_path / "kept.pt")["optimizer_history"] == before["optimizer_history"]


def test_train_shrink_train_generate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, deep, shallow = binarised_text(tmp_path), tmp_path / "deep", tmp_path / "shallow"
    data = [str(text), "--batch-size=4", "--share-all-embeddings", "--store-ema", "--encoder-groups=2"]
    patient = ["--patience=1", "--validate-interval-updates=1", "--no-epoch-checkpoints"]
    fairseq_train(monkeypatch, data, deep, "--encoder-layers=4", "--max-update=4", *patient)
    state = load(deep / "checkpoint_last.pt")
    state["extra_state"] |= {"best": 1e-3, PATIENCE: {"best": 1e-3, "runs": 1}}
    torch.save(state, deep / "checkpoint_last.pt")
    shallow.mkdir()
    command(deep / "checkpoint_last.pt", shallow / "checkpoint_last.pt", "--encoder-keep", "1,2")
    # What is the best, and whether to wait for a better one, is the shallower model's own, however good the deeper was.
    for function, names in (
        (checkpoint_utils.save_checkpoint, ["best"]),
        (train.should_stop_early, ["best", "num_runs"]),
    ):
        for name in names:
            monkeypatch.delattr(function, name, raising=False)
    rates = fairseq_train(monkeypatch, data, shallow, "--encoder-layers=2", "--max-update=6", *patient)
    assert next(iter(rates)) == 4
    capsys.readouterr()
    for path in (shallow / "checkpoint_best.pt", shallow / "checkpoint_last.pt"):
        monkeypatch.setattr(
            sys, "argv", ["generate", str(text), f"--path={path}", "--cpu", "--beam=2", "--num-workers=0"]
        )
        generate.cli_main()
        assert capsys.readouterr().out.count("\nH-") == 6
