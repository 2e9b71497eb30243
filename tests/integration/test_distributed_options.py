"""Two processes train as one with every option whose draws or sums could depend on the process."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.tasks import FairseqTask
from support.distributed_runs import (
    fairseq_train,
    largest_difference,
    parameters,
    start,
    train_arguments,
    write_corpus,
)

HALF = ["--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", "4"]
DROPOUT = ["--dropout", "0.2", "--attention-dropout", "0.1"]
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
}


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


@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_as_one(case: str, data: Path, tmp_path: Path) -> None:
    options, tolerance = CASES[case]
    one, two = (trained(options, processes, data, tmp_path / str(processes)) for processes in (1, 2))
    assert largest_difference(one, two) < tolerance


def test_two_processes_learn_from_a_teacher_as_one(data: Path, tmp_path: Path) -> None:
    trained([], 1, data, tmp_path / "teacher")
    options = [*DROPOUT, "--criterion", "label_smoothed_cross_entropy_distillation", "--teacher-types", "5"]
    options += ["--teacher", str(tmp_path / "teacher" / "checkpoint_last.pt")]
    one, two = (trained(options, processes, data, tmp_path / str(processes)) for processes in (1, 2))
    assert largest_difference(one, two) < 1e-5
    assert largest_difference(one, trained(DROPOUT, 1, data, tmp_path / "untaught")) > 0.01


def test_the_cases_are_different_trainings(data: Path, tmp_path: Path) -> None:
    names = ("dropout", "r-drop", "simcut", "clipping")
    found = [trained(CASES[name][0], 1, data, tmp_path / name) for name in names]
    assert all(largest_difference(a, b) > 0.01 for a, b in itertools.combinations(found, 2))
