"""`deepnmt grow` and its faults: a line each, and nothing written."""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.checkpoints import BAD_STATES, checkpoint, load, run_command, with_optimizer

from deepnmt.checkpoints.grow import STRATEGIES, Growth, grow
from deepnmt.errors import UserError


def command(source: Path, target: Path, *words: str) -> None:
    run_command("grow", source, target, *words)


def refused(source: Path, target: Path, *words: str) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        command(source, target, *words)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "4.pt"
    torch.save(checkpoint(encoder_groups="3", decoder_groups="none"), path)
    return path


FAULTS: list[tuple[list[str], list[str]]] = [
    (["--encoder-layers=3"], ["--encoder-layers must be above the present depth, 4, but is 3"]),
    (["--encoder-layers=4"], ["--encoder-layers must be above the present depth, 4, but is 4"]),
    (
        ["--decoder-layers=6"],
        ["--decoder-layers must be a multiple of the present depth, 4, with --strategy stack, but is 6"],
    ),
    (
        ["--encoder-layers=3", "--decoder-layers=9", "--strategy=top"],
        [
            "--encoder-layers must be above the present depth, 4, but is 3",
            "--decoder-layers must be at most twice the present depth, 4, with --strategy top, but is 9",
        ],
    ),
    (
        ["--encoder-layers=8"],
        ["--encoder-groups must end a group after layer 4, where a present one ends, but is '3'; '0,3,4,8' does"],
    ),
    (
        ["--encoder-layers=8", "--encoder-groups=0,4,8"],
        ["--encoder-groups must end a group after layer 3, where a present one ends, but is '0,4,8'; '0,3,4,8' does"],
    ),
    (["--decoder-layers=8", "--decoder-groups=4"], ["--decoder-groups must be none as before, but is '4'"]),
    (["--decoder-layers=8", "--encoder-groups=4"], ["--encoder-groups needs --encoder-layers"]),
    ([], ["--encoder-layers or --decoder-layers must be given"]),
    (
        ["--decoder-layers=8", "--carry-moments"],
        ["--carry-moments: no optimizer state found in {path}"],
    ),
    (["--decoder-layers=x"], ["argument --decoder-layers: invalid int value: 'x' (see --help)"]),
    (
        ["--decoder-layers=8", "--strategy=shuffle"],
        [
            "argument --strategy: invalid choice: 'shuffle' (choose from 'stack', 'top', 'repeat-top', 'interleave') "
            "(see --help)"
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("words", "lines"), FAULTS)
def test_growth_that_is_not_possible(
    words: list[str], lines: list[str], saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(saved, tmp_path / "out.pt", *words)
    printed = capsys.readouterr()
    assert printed.err.splitlines() == [f"deepnmt grow: error: {line.format(path=saved)}" for line in lines]
    assert printed.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("case", BAD_STATES.values(), ids=BAD_STATES)
def test_checkpoints_that_are_not_as_they_must_be(
    case: tuple[Callable[[dict[str, Any]], Any], str], saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, line = case
    path = tmp_path / "in.pt"
    torch.save(change(load(saved)), path)
    refused(path, tmp_path / "out.pt", "--decoder-layers=8")
    assert capsys.readouterr().err == f"deepnmt grow: error: {line.format(path=path)}\n"
    assert list(tmp_path.iterdir()) == [path]


def test_optimizer_that_does_not_fit() -> None:
    must = r"^--carry-moments: the checkpoint must have an optimizer of the model's \d+ parameters, but it has 2$"
    with pytest.raises(UserError, match=must):
        grow(with_optimizer(checkpoint(), 1), Growth({"encoder": 8}), carry_moments=True)
    state = checkpoint()
    count = sum(not name.endswith("version") for name in state["model"])
    flat = {"step": 1, "exp_avg": torch.zeros(5)}
    for params, kept, message in (
        ([0], {0: flat}, r"must have moments of the model's \d+ numbers, but exp_avg has 5$"),
        (
            list(range(count)),
            {0: flat},
            r"must have moments of the parameters' shapes, but exp_avg of encoder.embed_tokens.weight is \(5,\) and",
        ),
    ):
        optimizer = {"state": kept, "param_groups": [{"params": params}]}
        with pytest.raises(UserError, match=f"^--carry-moments: the checkpoint {message}"):
            grow({**state, "last_optimizer_state": optimizer}, Growth({"encoder": 8}), carry_moments=True)


def test_unknown_strategy() -> None:
    with pytest.raises(UserError, match=r"^--strategy must be one of stack, top, repeat-top, interleave, but is dice$"):
        grow(checkpoint(), Growth({"encoder": 8}, strategy="dice"))


def test_files_that_cannot_be_read_or_written(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def error() -> str:
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("deepnmt grow: error: ")
        return printed.err[len("deepnmt grow: error: ") :]

    whole, target, depth = saved.read_bytes(), tmp_path / "out.pt", "--decoder-layers=8"
    refused(tmp_path / "no.pt", target, depth)
    assert error() == f"{tmp_path / 'no.pt'}: no such checkpoint\n"
    cut = tmp_path / "cut.pt"
    for size in (len(whole) // 2, 100, 0):
        cut.write_bytes(whole[:size])
        refused(cut, target, depth)
        kind = "a whole fairseq checkpoint"
        assert re.fullmatch(rf"{cut}: must be {kind}, but is (another file, )?truncated[^\n]+\n", error())
    torch.save({"model": {}, "code": signal.Signals}, cut)
    refused(cut, target, depth)
    assert error() == (
        f"{cut}: must be a whole fairseq checkpoint, but holds a signal.Signals, which it does not need; it is not "
        "loaded, since that could run a program hidden in it\n"
    )

    refused(saved, saved, depth)
    assert error() == f"{saved}: the new checkpoint must not be the old one\n"
    (tmp_path / "link.pt").symlink_to(saved)
    refused(saved, tmp_path / "link.pt", depth)
    assert error().startswith(f"{tmp_path / 'link.pt'}: the new checkpoint must not be the old one")
    refused(saved, cut, depth)
    assert error() == f"{cut}: the new checkpoint exists already\n"
    refused(saved, tmp_path / "no" / "out.pt", depth)
    assert error() == f"{tmp_path / 'no'}: the folder of the new checkpoint was not found\n"

    def full_disk(state: Any, file: Any) -> None:
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full_disk)
    refused(saved, target, depth)
    assert error() == f"cannot write {target}: No space left on device\n"
    assert {path.name for path in tmp_path.iterdir()} == {"cut.pt", "link.pt"}
    assert saved.read_bytes() == whole


def test_help_names_every_strategy(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        command(Path("--help"), Path("--help"))
    printed = capsys.readouterr().out
    assert all(f"\n  {strategy} " in printed for strategy in STRATEGIES)
