"""The process of a training: precision, on made-up GPUs; torchrun for several processes; one training a folder."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import socket
import sys
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from support.data_folders import data_folder

from deepnmt import console
from deepnmt.errors import UserError
from deepnmt.fairseq_patches.checks import training_checks
from deepnmt.jobs import job
from deepnmt.runs import training
from deepnmt.runs.supervision import LOCK
from deepnmt.training import launched

RECIPE = "arch: dlcl_transformer_tiny\noptimizer: adam\nmax-tokens: 100\nlr: 0.001\nbf16: true\n"
RECIPE += "encoder-layers: 2\ndecoder-layers: 2\nencoder-ffn-embed-dim: 8\ndecoder-ffn-embed-dim: 8\n"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """RECIPE, DATA and SAVE; output is not copied to a log."""
    (tmp_path / "r.yaml").write_text(RECIPE, encoding="utf-8")
    monkeypatch.setattr(training, "copy_output", lambda log: None)
    return [str(tmp_path / "r.yaml"), str(data_folder(tmp_path / "data", ["train", "valid"])), str(tmp_path / "save")]


def start(monkeypatch: pytest.MonkeyPatch, gpus: int, *arguments: str, **place: str) -> list[str]:
    """The command line of fairseq-train on a machine with so many GPUs, and PROCESSES and others in the environment."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(sys, "argv", ["training.py", *arguments])
    for name in ("PROCESSES", "NODES", "NODE", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    training.main()
    return sys.argv


def test_precision_of_the_recipe_on_a_gpu(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    command = start(monkeypatch, 1, *places)
    assert command[:2] == ["fairseq-train", places[1]]
    assert [word for word in command if word.endswith(("fp16", "bf16", "amp", "--cpu"))] == ["--bf16"]
    assert Path(places[2]).is_dir()


def test_ranges_are_asked_once(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe's check is enough for its own command line and for the processes of its launcher."""
    command = start(monkeypatch, 0, *places)
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), command[1:]))
    cfg.model.dropout, cfg.optimization.clip_norm = 2, -1
    training_checks.check_training(cfg)
    monkeypatch.setattr(sys, "argv", [*command, "--seed=2"])
    with pytest.raises(UserError, match=r"--clip-norm must be .*, but is -1.*\n--dropout must be .*, but is 2"):
        training_checks.check_training(cfg)
    monkeypatch.setattr(launched, "_led", True)
    training_checks.check_training(cfg)


def test_two_precisions_are_refused(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"r\.yaml:5: bf16 must be the only precision, but stands beside amp"):
        start(monkeypatch, 1, *places, "--amp")
    assert not Path(places[2]).exists()


def test_folder_of_a_training_that_still_works_is_refused(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "WAIT", 0.3)
    save = Path(places[2])
    save.mkdir()
    with (save / "train.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=f"^SAVE must not be in use, but a command .* is .* in '{save}'$"):
            start(monkeypatch, 0, *places, "--bf16")
    assert [path.name for path in save.iterdir()] == ["train.lock"]
    start(monkeypatch, 0, *places)
    # A training that is killed may leave children behind, which have its files.
    held = [int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists() and path.samefile(save / LOCK)]
    assert any(map(os.get_inheritable, held))
    with pytest.raises(UserError, match="SAVE must not be in use"):
        start(monkeypatch, 0, *places)


def ending_launcher(monkeypatch: pytest.MonkeyPatch, status: int) -> list[list[str]]:
    """Put one in its place, which runs in this process; the arguments of its calls."""
    calls: list[list[str]] = []

    def end(arguments: list[str]) -> None:
        calls.append(arguments)
        if status:
            sys.exit(status)

    monkeypatch.setattr(training.launch, "main", end)
    return calls


@pytest.mark.parametrize(
    ("gpus", "set_", "place", "share"),
    [
        (2, {}, "--standalone --nproc-per-node 2", 2),
        (2, {"PROCESSES": "4"}, "--standalone --nproc-per-node 4", 1),
        (
            1,
            {"NODES": "2", "NODE": "1", "MASTER": "fd00::1:29500"},
            "--nnodes 2 --node-rank 1 --master-addr fd00::1 --master-port 29500 --nproc-per-node 1",
            2,
        ),
    ],
)
def test_several_processes_are_torchruns(
    places: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    gpus: int,
    set_: dict[str, str],
    place: str,
    share: int,
) -> None:
    (tmp_path / "r.yaml").write_text(f"{RECIPE}batches-per-update: 4\n", encoding="utf-8")
    monkeypatch.setattr(training, "rehearse", lambda arguments: None)
    calls = ending_launcher(monkeypatch, 1)
    with pytest.raises(SystemExit, match="1"):
        start(monkeypatch, gpus, *places, **set_)
    program = shutil.which("fairseq-train") or "fairseq-train"
    given = shlex.join(calls[0])
    assert given.startswith(f"{place} {program} {places[1]} --user-dir ")
    assert f"--update-freq={share}" in calls[0]
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"+ {sys.executable} -m deepnmt.runs.launch {given}"
    again = "run the same command again to start over"
    assert said[1:] == [f"deepnmt train: error: the training ended early; {again}"]


@pytest.mark.parametrize("status", [0, 143])
def test_the_status_of_several_processes(
    status: int, places: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal ends them without a word, since whoever has sent it knows."""
    monkeypatch.setattr(training, "rehearse", lambda arguments: None)
    ending_launcher(monkeypatch, status)
    # SystemExit's text is its status, None where all went well.
    with pytest.raises(SystemExit, match=f"^{status or ''}$"):
        start(monkeypatch, 2, *places)
    assert [line[0] for line in capsys.readouterr().err.splitlines()] == ["+"]


def test_a_master_that_nobody_knows(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(host: str, port: str) -> None:
        raise socket.gaierror(-2, f"{host} is not known")

    monkeypatch.setattr(training.socket, "getaddrinfo", unknown)
    message = r"^MASTER must be HOST:PORT of machine 0, but is far:29500: \[Errno -2\] far is not known$"
    with pytest.raises(UserError, match=message):
        start(monkeypatch, 1, *places, NODES="2", NODE="1", MASTER="far:29500")
    assert not Path(places[2]).exists()


def test_a_save_that_can_be_no_folder(places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    message = rf"^SAVE must be a folder, or a new one, but is {re.escape(places[0])}: File exists$"
    with pytest.raises(UserError, match=message):
        start(monkeypatch, 0, *places[:2], places[0])


@pytest.mark.parametrize("port", ["0", "99999", "9" * 5000])
def test_a_port_that_no_machine_has(port: str, places: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # A value that fills screens is cut.
    shown = f"{port}$" if len(port) < 10 else "9{4900}"
    message = rf"^MASTER must be HOST:PORT of machine 0, with a port from 1 to 65535, but is localhost:{shown}"
    with pytest.raises(UserError, match=message):
        start(monkeypatch, 1, *places, NODES="2", NODE="1", MASTER=f"localhost:{port}")
    assert not Path(places[2]).exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the recipe, and its data folder beside it."""
    folder = tmp_path_factory.mktemp("trained")
    data = data_folder(folder / "data", ["train", "valid"])
    (folder / "r.yaml").write_text(RECIPE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(training, "copy_output", lambda log: None)
        options = ["--max-update=1", "--num-workers=0", "--no-epoch-checkpoints"]
        start(monkeypatch, 0, str(folder / "r.yaml"), str(data), str(folder), *options)
        training.cli_main()
    return folder / "checkpoint_last.pt"


# What is asked of two processes, and the refusal: of the check of a training, of checkpoints, of fairseq.
REFUSED = {
    "memory": (
        ["--encoder-embed-dim=1000000", "--decoder-embed-dim=1000000"], "the model must fit into the .* GB of .*",
    ),
    "restore-file": (
        ["--restore-file={save}/no.pt"], "--restore-file: checkpoint {save}/no.pt not found",
    ),
    "depth": (
        ["--encoder-layers=3"],
        r"{save}/checkpoint_last.pt: model\..* must be there, .*; options that differ: encoder_layers 2, here 3",
    ),
    "metric": (
        ["--best-checkpoint-metric=foo"], "--best-checkpoint-metric must be one of bsz, .*, wps, but is foo",
    ),
    "fairseq": (["--finetune-from-model=a", "--reset-meters"], r"--finetune-from-model can not be set .*"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_a_process_would_refuse_is_refused_before_torchrun(
    places: list[str], trained: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str], options: list[str], message: str,
) -> None:  # fmt: skip
    calls = ending_launcher(monkeypatch, 1)
    monkeypatch.setattr(console, "_runs", True)
    save = Path(places[2])
    save.mkdir()
    shutil.copy(trained, save)
    with pytest.raises(UserError, match=f"^({message.format(save=save, data=places[1])})$"):
        start(monkeypatch, 0, *places, *(option.format(save=save) for option in options), PROCESSES="2")
    assert not calls
    assert capfd.readouterr() == ("", "")
    assert sorted(path.name for path in save.iterdir()) == ["checkpoint_last.pt", "train.lock"]


def test_torchrun_that_fails_where_there_is_a_checkpoint(
    places: list[str], trained: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = ending_launcher(monkeypatch, 1)
    save = Path(places[2])
    save.mkdir()
    shutil.copy(trained, save)
    with pytest.raises(SystemExit, match="1"):
        start(monkeypatch, 0, *places, PROCESSES="2")
    assert calls
    again = f"run the same command again to resume from the last checkpoint in {save}"
    assert capfd.readouterr().err.endswith(f"deepnmt train: error: the training ended early; {again}\n")
