"""Two processes train as one with every option whose draws or sums could depend on the process."""

from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import DistributedTrainingConfig
from fairseq.distributed import DistributedTimeoutWrapper
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks import FairseqTask
from support.distributed_runs import (
    fairseq_train,
    largest_difference,
    parameters,
    start,
    train_arguments,
    write_corpus,
)
from support.slow import slow_but
from torch.nn.parallel import DistributedDataParallel

HALF = ["--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", "4"]
DROPOUT = ["--dropout", "0.2", "--attention-dropout", "0.1"]
# How processes exchange gradients and statistics; they must not change what is learned.
EXCHANGE = ["--bucket-cap-mb", "1", "--gradient-as-bucket-view", "--find-unused-parameters", "--broadcast-buffers"]
EXCHANGE += ["--heartbeat-timeout", "60", "--all-gather-list-size", "65536", "--fast-stat-sync"]
EXCHANGE += ["--fix-batches-to-gpus"]
# Options, and how far apart the parameters may be: the order of sums is another one.
CASES: dict[str, tuple[list[str], float]] = {
    "dropout": (DROPOUT, 1e-5),
    "r-drop": ([*DROPOUT, "--criterion", "label_smoothed_cross_entropy_r_drop"], 1e-5),
    "simcut": (["--criterion", "label_smoothed_cross_entropy_simcut", "--simcut-rate", "0.3"], 1e-5),
    "risk": ([*DROPOUT, "--criterion", "label_smoothed_cross_entropy_mrt", "--mrt-beam", "3"], 1e-5),
    "relative": (["--encoder-max-relative-length", "3", "--decoder-max-relative-length", "2"], 1e-5),
    "checkpointing": (["--checkpoint-activations", "--encoder-skip", "0.4", *DROPOUT], 1e-5),
    "clipping": (["--clip-norm", "0.1"], 1e-5),
    "half": (HALF, 0.02),
    "half, fused": ([*HALF, "--criterion", "label_smoothed_cross_entropy_fused"], 0.02),
    "memory-efficient half": (["--memory-efficient-fp16", "--fp16-init-scale", "4"], 0.05),
    "exchange": (EXCHANGE, 1e-5),
    "both directions": ([*DROPOUT, "--arch", "dlcl_dual", "--criterion", "dual_supervised"], 1e-5),
}
USUAL = ("half, fused",)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "data")


def train_with_draws_of_batches(arguments: list[str]) -> None:
    """Train with random numbers that depend on update and batch, not on the process that has it."""
    stock = FairseqTask.train_step

    def train_step(self: Any, sample: Any, *args: Any, update_num: int, **options: Any) -> Any:
        torch.manual_seed(1000 * update_num + int(sample["target"].sum()))
        return stock(self, sample, *args, update_num=update_num, **options)

    FairseqTask.train_step = train_step
    fairseq_train(arguments)


def trained(options: list[str], processes: int, data: Path, save: Path) -> dict[str, torch.Tensor]:
    """The parameters after eight updates of four batches, the last of each epoch a short one."""
    arguments = train_arguments([*options, "--max-update", "8"], data, save, 4 // processes)
    start(train_with_draws_of_batches, (arguments,), processes, save)
    return parameters(save)


@pytest.mark.parametrize("case", slow_but(USUAL, CASES))
def test_two_processes_train_as_one(case: str, data: Path, tmp_path: Path) -> None:
    options, tolerance = CASES[case]
    one, two = (trained(options, processes, data, tmp_path / str(processes)) for processes in (1, 2))
    assert largest_difference(one, two) < tolerance


@pytest.mark.slow
def test_two_processes_learn_from_a_teacher_as_one(data: Path, tmp_path: Path) -> None:
    trained([], 1, data, tmp_path / "teacher")
    options = [*DROPOUT, "--criterion", "label_smoothed_cross_entropy_distillation", "--teacher-types", "5"]
    options += ["--teacher", str(tmp_path / "teacher" / "checkpoint_last.pt")]
    one, two = (trained(options, processes, data, tmp_path / str(processes)) for processes in (1, 2))
    assert largest_difference(one, two) < 1e-5
    assert largest_difference(one, trained(DROPOUT, 1, data, tmp_path / "untaught")) > 0.01


@pytest.mark.slow
def test_the_cases_are_different_trainings(data: Path, tmp_path: Path) -> None:
    names = ("dropout", "r-drop", "simcut", "clipping")
    found = [trained(CASES[name][0], 1, data, tmp_path / name) for name in names]
    assert all(largest_difference(a, b) > 0.01 for a, b in itertools.combinations(found, 2))


def train_and_tell(arguments: list[str], folder: Path) -> None:
    """Train, and write down how this process exchanges gradients, which sentences it has had, and what it has read."""
    seen: dict[str, Any] = {"sentences": [], "read": 0}
    step, load = FairseqTask.train_step, checkpoint_utils.load_checkpoint_to_cpu

    def train_step(self: Any, sample: Any, model: Any, *args: Any, **options: Any) -> Any:
        seen["heartbeat"] = model.timeout if isinstance(model, DistributedTimeoutWrapper) else None
        parallel = next(part for part in model.modules() if isinstance(part, DistributedDataParallel))
        names = ("bucket_bytes_cap", "gradient_as_bucket_view", "find_unused_parameters", "broadcast_buffers")
        seen["parallel"] = [getattr(parallel, name) for name in names]
        seen["sentences"].append(sample["id"].tolist())
        return step(self, sample, model, *args, **options)

    @functools.wraps(load)
    def load_checkpoint_to_cpu(*args: Any, **options: Any) -> Any:
        seen["read"] += 1
        return load(*args, **options)

    FairseqTask.train_step, checkpoint_utils.load_checkpoint_to_cpu = train_step, load_checkpoint_to_cpu
    fairseq_train(arguments)
    (folder / f"{os.environ['RANK']}.json").write_text(json.dumps(seen), encoding="utf-8")


def told(options: list[str], data: Path, save: Path) -> list[dict[str, Any]]:
    """What `train_and_tell` says in each of two processes."""
    start(train_and_tell, (train_arguments(options, data, save), save), 2, save)
    return [json.loads((save / f"{rank}.json").read_text("utf-8")) for rank in (0, 1)]


@pytest.mark.slow
def test_what_options_of_the_exchange_set(data: Path, tmp_path: Path) -> None:
    plain = told(["--max-update", "10"], data, tmp_path / "plain")
    given = told([*EXCHANGE, "--max-update", "10"], data, tmp_path / "given")
    assert [each["heartbeat"] for each in (*plain, *given)] == [None, None, 60, 60]
    # fairseq's default looks for unused parameters in no model, the package's in one whose sublayers are skipped.
    assert [each["parallel"] for each in plain] == [[25 * 2**20, False, False, False]] * 2
    assert [each["parallel"] for each in given] == [[2**20, True, True, True]] * 2
    # Batches are dealt out anew in each epoch: memory-mapped data is not read ahead, so that nothing is to be fixed.
    assert [each["sentences"] for each in plain] == [each["sentences"] for each in given]
    assert sorted(map(sorted, plain[0]["sentences"][:4])) != sorted(map(sorted, plain[0]["sentences"][4:8]))


@pytest.mark.slow
def test_who_reads_a_checkpoint(data: Path, tmp_path: Path) -> None:
    trained([], 2, data, tmp_path / "begun")
    found = []
    for name, options in (("first", []), ("all", ["--load-checkpoint-on-all-dp-ranks"])):
        (tmp_path / name).mkdir()
        shutil.copy(tmp_path / "begun" / "checkpoint_last.pt", tmp_path / name)
        processes = told([*options, "--max-update", "12"], data, tmp_path / name)
        found.append((processes, parameters(tmp_path / name)))
    (first, one), (both, other) = found
    assert first[0]["read"] == first[1]["read"] + 1
    assert both[0]["read"] == both[1]["read"] == first[0]["read"]
    assert all(one[name].equal(other[name]) for name in one)


def test_port_with_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\necho node7\necho node8\n", encoding="utf-8")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    slurm = {"STEP_NODELIST": "node[7-8]", "NNODES": "2", "NTASKS_PER_NODE": "2", "PROCID": "3", "LOCALID": "1"}
    for name, value in slurm.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    cfg = DistributedTrainingConfig(
        distributed_world_size=4, distributed_port=29876, distributed_no_spawn=True, tpu=False
    )
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: None)
    distributed_utils.infer_init_method(cfg)
    assert (cfg.distributed_init_method, cfg.distributed_rank, cfg.device_id) == ("tcp://node7:29876", 3, 1)
