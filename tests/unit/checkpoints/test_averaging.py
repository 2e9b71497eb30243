"""Averages of checkpoints against a mean in float64 written out here, and which files can be read."""

from __future__ import annotations

import os
import pickle
import re
import resource
import subprocess
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import warm
from support.checkpoints import BAD_STATES, checkpoint
from support.slow import slow_but

from deepnmt.checkpoints import averaging
from deepnmt.checkpoints.file import load, read
from deepnmt.cli import average
from deepnmt.errors import UserError

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"

ROWS, COLUMNS = 500, 64


def model(seed: int, tied: bool = True) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(ROWS, COLUMNS, generator=generator)
    output = embedding if tied else embedding.clone()
    return {
        "encoder.embed_tokens.weight": embedding,
        "encoder.version": torch.tensor([3.0]),
        "encoder.half": torch.randn(7, generator=generator).half(),
        "encoder.steps": torch.tensor(seed),
        "decoder.embed_tokens.weight": output,
        "decoder.output_projection.weight": output,
    }


def save(path: Path, updates: int, tied: bool = True, **more: Any) -> Path:
    """A checkpoint as fairseq writes it, whose model is drawn with its number of updates as the seed."""
    weights = model(updates, tied)
    state = {
        "args": None,
        "cfg": {"task": {"_name": "translation"}, "model": Namespace(arch="transformer")},
        "model": weights,
        "criterion": None,
        "optimizer_history": [{"num_updates": updates, "optimizer_name": "FairseqAdam"}],
        "task_state": {},
        "extra_state": {
            "best": np.float64(31.5),
            "val_loss": 2.0,
            "ema": weights,
            "train_iterator": {"epoch": updates, "iterations_in_epoch": 0},
        },
        "last_optimizer_state": {
            "state": {0: {"exp_avg": torch.zeros(3 * ROWS, COLUMNS)}},
            "param_groups": [{"params": [0]}],
        },
        **more,
    }
    torch.save(state, path)
    return path


def run_average(*arguments: object, file_limit: int | None = None) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        if file_limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, resource.RLIM_INFINITY))

    command = [str(SCRIPTS / "average.sh"), *map(str, arguments)]
    environment = {**os.environ, **warm.environment()}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, preexec_fn=limit, env=environment
    )


def error_of(result: subprocess.CompletedProcess[str]) -> str:
    """The only line of error; progress and printed commands are no errors."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    (line,) = [line for line in result.stderr.splitlines() if ": error: " in line]
    return line


def chosen(folder: Path, **size: int) -> list[str]:
    ((which, number),) = size.items()
    return [path.name for path in averaging.choose(folder, which.replace("_", "-"), number)]


def test_average_is_the_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for epoch in range(1, 5):
        save(tmp_path / f"checkpoint{epoch}.pt", updates=10 * epoch)
    average.main([str(tmp_path), str(tmp_path / "mean.pt"), "--last", "3"])
    assert "checkpoint2.pt checkpoint3.pt checkpoint4.pt\n" in capsys.readouterr().err
    averaged = read(tmp_path / "mean.pt")
    models = [model(updates) for updates in (20, 30, 40)]
    assert list(averaged["model"]) == list(models[0])
    for name in ("encoder.embed_tokens.weight", "encoder.version", "encoder.half", "decoder.output_projection.weight"):
        dtype = models[0][name].dtype
        expected = np.mean([tensors[name].double().numpy() for tensors in models], axis=0)
        assert torch.equal(averaged["model"][name], torch.from_numpy(expected).to(dtype))
    assert averaged["model"]["encoder.steps"] == 40
    assert averaged["model"]["encoder.steps"].dtype == torch.int64


def test_average_keeps_what_loading_needs_and_no_more(tmp_path: Path) -> None:
    paths = [save(tmp_path / f"checkpoint{epoch}.pt", updates=epoch) for epoch in (1, 2)]
    averaged, newest = averaging.average_checkpoints(paths), read(paths[1])
    assert newest.keys() - averaged.keys() == {"last_optimizer_state"}
    assert newest["extra_state"].keys() - averaged["extra_state"].keys() == {"ema"}
    for key in ("args", "cfg", "criterion", "optimizer_history", "task_state"):
        assert averaged[key] == newest[key]
    assert averaged["extra_state"]["train_iterator"] == {"epoch": 2, "iterations_in_epoch": 0}


@pytest.mark.parametrize("tied", [True, False])
def test_size_is_that_of_one_model(tmp_path: Path, tied: bool) -> None:
    for epoch in (1, 2):
        save(tmp_path / f"checkpoint{epoch}.pt", updates=epoch, tied=tied)
    torch.save(model(1, tied), tmp_path / "model.pt")
    average.main([str(tmp_path), str(tmp_path / "mean.pt"), "--last", "2"])
    size, bare = (tmp_path / "mean.pt").stat().st_size, (tmp_path / "model.pt").stat().st_size
    embeddings = 1 if tied else 2
    assert embeddings * ROWS * COLUMNS * 4 < size < bare + 8_000


def test_tied_tensors_share_storage_only_where_all_do(tmp_path: Path) -> None:
    both = [save(tmp_path / f"checkpoint{epoch}.pt", updates=epoch) for epoch in (1, 2)]
    tied = averaging.average_checkpoints(both)["model"]
    pointers = {tied[name].data_ptr() for name in tied if "embed" in name or "projection" in name}
    assert len(pointers) == 1
    loose = save(tmp_path / "checkpoint3.pt", updates=3, tied=False)
    weights = averaging.average_checkpoints([*both, loose])["model"]
    assert weights["encoder.embed_tokens.weight"].data_ptr() != weights["decoder.embed_tokens.weight"].data_ptr()
    assert torch.equal(weights["encoder.embed_tokens.weight"], weights["decoder.embed_tokens.weight"])


def test_nothing_is_weighed_twice(tmp_path: Path) -> None:
    for epoch in (1, 2, 10):
        save(tmp_path / f"checkpoint{epoch}.pt", updates=100 * epoch)
    save(tmp_path / "checkpoint_10_1000.pt", updates=1000)
    save(tmp_path / "checkpoint_3_250.pt", updates=250)
    save(tmp_path / "checkpoint_best.pt", updates=200)
    save(tmp_path / "checkpoint_last.pt", updates=1000)
    save(tmp_path / "checkpoint.best_bleu_30.pt", updates=50)
    assert chosen(tmp_path, last=3) == ["checkpoint2.pt", "checkpoint_3_250.pt", "checkpoint10.pt"]
    assert chosen(tmp_path, last=4)[0] == "checkpoint1.pt"
    with pytest.raises(UserError, match=r"--last must be at most the number of checkpoints in .*, 4, but is 5"):
        chosen(tmp_path, last=5)


def test_best_and_last_count_where_they_add_an_update(tmp_path: Path) -> None:
    save(tmp_path / "checkpoint7.pt", updates=700)
    save(tmp_path / "checkpoint_best.pt", updates=400)
    save(tmp_path / "checkpoint_last.pt", updates=750)
    assert chosen(tmp_path, last=3) == ["checkpoint_best.pt", "checkpoint7.pt", "checkpoint_last.pt"]
    assert chosen(tmp_path, around_best=2) == ["checkpoint_best.pt", "checkpoint7.pt"]


@pytest.mark.parametrize(
    ("best", "size", "expected"),
    [
        (4, 1, [4]),
        (4, 3, [3, 4, 5]),
        (4, 2, [4, 5]),
        (4, 4, [3, 4, 5, 6]),
        (1, 3, [1, 2, 3]),
        (6, 3, [4, 5, 6]),
        (2, 6, [1, 2, 3, 4, 5, 6]),
    ],
)
def test_window_around_the_best(tmp_path: Path, best: int, size: int, expected: list[int]) -> None:
    for epoch in range(1, 7):
        save(tmp_path / f"checkpoint{epoch}.pt", updates=5 * epoch)
    save(tmp_path / "checkpoint_best.pt", updates=5 * best)
    assert chosen(tmp_path, around_best=size) == [f"checkpoint{epoch}.pt" for epoch in expected]


def test_up_to_the_best(tmp_path: Path) -> None:
    for epoch in range(1, 7):
        save(tmp_path / f"checkpoint{epoch}.pt", updates=5 * epoch)
    save(tmp_path / "checkpoint_best.pt", updates=20)
    assert chosen(tmp_path, until_best=3) == ["checkpoint2.pt", "checkpoint3.pt", "checkpoint4.pt"]
    with pytest.raises(
        UserError,
        match=r"--until-best must be at most the number of checkpoints up to checkpoint_best\.pt in .*, 4, but",
    ):
        chosen(tmp_path, until_best=5)


def test_around_best_needs_the_best(tmp_path: Path) -> None:
    save(tmp_path / "checkpoint1.pt", updates=1)
    with pytest.raises(UserError, match=r"checkpoint_best\.pt: no such checkpoint"):
        chosen(tmp_path, around_best=1)


def test_too_few_checkpoints(tmp_path: Path) -> None:
    save(tmp_path / "checkpoint1.pt", updates=1)
    (tmp_path / "mean.pt").write_text("earlier")
    with pytest.raises(UserError, match=f"^--last must be at most the number of .* in {tmp_path}, 1, but is 2"):
        average.main([str(tmp_path), str(tmp_path / "mean.pt"), "--last", "2"])
    assert (tmp_path / "mean.pt").read_text() == "earlier"


def test_different_models(tmp_path: Path) -> None:
    first, second = save(tmp_path / "checkpoint1.pt", updates=1), tmp_path / "checkpoint2.pt"
    save(second, updates=2, model={**model(2), "encoder.embed_tokens.weight": torch.ones(400, COLUMNS)})
    message = f"encoder.embed_tokens.weight is (500, 64) in {first}, but (400, 64) in {second}"
    with pytest.raises(UserError, match=re.escape(message)):
        average.main([str(tmp_path), str(tmp_path / "mean.pt"), "--last", "2"])
    assert not (tmp_path / "mean.pt").exists()
    save(second, updates=2, model={**model(2), "decoder.extra": torch.ones(1)})
    with pytest.raises(UserError, match=r"decoder\.extra is in .*checkpoint2\.pt, but not in .*checkpoint1\.pt"):
        averaging.average_checkpoints([first, second])
    with pytest.raises(UserError, match=r"decoder\.extra is in .*checkpoint2\.pt, but not in .*checkpoint1\.pt"):
        averaging.average_checkpoints([second, first])


@pytest.mark.parametrize(
    "name", slow_but(["another-depth", "unknown"], ["another-depth", "unknown", "whole-numbers", "a-tensor-too-many"])
)
def test_models_that_are_not_those_of_their_options(name: str, tmp_path: Path) -> None:
    change, _ = BAD_STATES[name]
    torch.save(checkpoint(), tmp_path / "checkpoint1.pt")
    later = {"optimizer_history": [{"num_updates": 9, "lr_scheduler_state": {}}]}
    torch.save({**change(checkpoint()), **later}, tmp_path / "checkpoint_2_9.pt")
    with pytest.raises(UserError, match=r"checkpoint_2_9\.pt: (cfg\.)?model.* must (be|hold) .*, but (is|holds)"):
        average.main([str(tmp_path), str(tmp_path / "mean.pt"), "--last", "2"])
    assert not (tmp_path / "mean.pt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{0}", "{0}/mean.pt"], "one of the arguments --last --until-best --around-best is required"),
        (
            ["{0}", "{0}/mean.pt", "--last", "1", "--around-best", "1"],
            "--around-best: not allowed with",
        ),
        (["{0}", "{0}/mean.pt", "--last", "some"], "--last must be a whole number from 1 to 1000000, but is 'some'"),
        (["{0}", "{0}/mean.pt", "--last", "0"], "--last must be a whole number from 1 to 1000000, but is '0'"),
        (["{0}"], "the following arguments are required: OUT.pt"),
        (["{0}/no", "{0}/mean.pt", "--last", "1"], "{0}/no: no such folder"),
        (["{0}", "{0}/checkpoint_best.pt", "--last", "1"], "must not be named like a checkpoint of the training"),
        (["{0}", "{0}/no/mean.pt", "--last", "1"], "cannot write {0}/no/mean.pt: No such file or directory"),
    ],
)
def test_bad_arguments(tmp_path: Path, arguments: list[str], message: str) -> None:
    save(tmp_path / "checkpoint1.pt", updates=1)
    with pytest.raises(UserError, match=re.escape(message.format(tmp_path))):
        average.main([argument.format(tmp_path) for argument in arguments])
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint1.pt"]


def test_no_space_left(tmp_path: Path) -> None:
    save(tmp_path / "checkpoint1.pt", updates=1)
    (tmp_path / "mean.pt").write_text("earlier")
    message = error_of(run_average(tmp_path, tmp_path / "mean.pt", "--last", 1, file_limit=50_000))
    assert f"cannot write {tmp_path}/mean.pt: File too large" in message
    assert (tmp_path / "mean.pt").read_text() == "earlier"
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint1.pt", "mean.pt"}


@pytest.mark.parametrize("kept", [0, 3, 100, 0.5, 0.999])
def test_truncated_checkpoint(tmp_path: Path, kept: float) -> None:
    path = save(tmp_path / "checkpoint1.pt", updates=1)
    content = path.read_bytes()
    path.write_bytes(content[: kept if isinstance(kept, int) else int(kept * len(content))])
    with pytest.raises(UserError, match=r"checkpoint1\.pt: must be .*, but is (another file, )?truncated"):
        read(path)


def test_not_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    with pytest.raises(UserError, match=r"x\.pt: no such checkpoint"):
        read(path)
    path.write_text("a text")
    with pytest.raises(UserError, match=r"x\.pt: must be a whole fairseq checkpoint, but is another file, truncated "):
        read(path)
    torch.save({"weights": torch.ones(1)}, path)
    with pytest.raises(UserError, match=r"x\.pt: model must be the model's tensors by their names, but is missing\n"):
        read(path)
    torch.save([torch.ones(1)], path)
    with pytest.raises(UserError, match=r"x\.pt: must be a fairseq checkpoint, but is a list$"):
        read(path)
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(UserError, match=r"x\.pt: must be a whole fairseq checkpoint, but is a broken link"):
        read(path)
    with pytest.raises(UserError, match=r": must be a whole fairseq checkpoint, but is a folder$"):
        read(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UserError, match=r"fifo: must be a whole fairseq checkpoint, but is not a file$"):
        read(tmp_path / "fifo")


class Program:
    """Pickled so that loading it would run a program."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch ran",)


@pytest.mark.parametrize("zipped", [True, False])
def test_forbidden_type_is_named_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool) -> None:
    monkeypatch.chdir(tmp_path)
    state = {"model": model(1), "extra_state": Program()}
    torch.save(state, "x.pt", _use_new_zipfile_serialization=zipped)
    with pytest.raises(UserError, match=r"x\.pt: must be .*, but holds a posix\.system, which it does not need"):
        read("x.pt")
    assert not Path("ran").exists()
    assert pickle.dumps(Program())


def test_types_that_fairseq_writes_are_read(tmp_path: Path) -> None:
    values = [np.float64(1.5), np.float32(1.5), np.int64(2), np.bool_(True), np.array([1.0, 2.0]), Namespace(arch="x")]
    torch.save({"model": model(1), "extra_state": values}, tmp_path / "x.pt")
    found = load(tmp_path / "x.pt", "file", "values")["extra_state"]
    assert found[:4] == values[:4]
    assert found[4].tolist() == [1.0, 2.0]
    assert found[5] == Namespace(arch="x")
    torch.save({"model": model(1), "extra_state": values}, tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    assert load(tmp_path / "x.pt", "file", "values")["extra_state"][:4] == values[:4]
