"""Two and four processes on the CPU train the same parameters as one, and what cannot work is refused."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from fairseq.dataclass.configs import DistributedTrainingConfig, FairseqConfig
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer
from omegaconf import OmegaConf
from support.distributed_runs import (
    SECONDS,
    UPDATES,
    largest_difference,
    parameters,
    run,
    start,
    train_arguments,
    write_corpus,
)
from support.processes import started, wait_until
from support.slow import slow_but

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.fixes import workers

BIN = Path(sys.executable).parent
# float32: gradients of the batches are added in another order, in twenty updates.
TOLERANCE = 1e-5
PLAIN = ["--encoder-groups", "none", "--decoder-groups", "none"]
POST_NORM = ["--encoder-norm", "post", "--decoder-norm", "post"]
CASES = {
    "dlcl-c10d": ["--ddp-backend", "c10d"],
    "plain-legacy_ddp": [*PLAIN, "--ddp-backend", "legacy_ddp"],
    # The default backend waits for every parameter's gradient, those of skipped sublayers too.
    "merged-skipping": ["--merged-attention", "--encoder-skip", "0.5", "--decoder-skip", "0.5"],
    "t-fixup": ["--initializer", "t-fixup", "--encoder-norm", "none", "--decoder-norm", "none"],
    "r-drop": ["--criterion", "label_smoothed_cross_entropy_r_drop"],
    "mass": ["--task", "deep_mass", "--mass-langs", "de", "--share-all-embeddings"],
    "masked": ["--task", "deep_masked_lm", "--criterion", "masked_language_model", "--share-all-embeddings"],
    "random-order": ["--task", "deep_translation", "--batch-order", "random"],
    "transparent-l2": ["--task", "deep_translation", "--encoder-groups", "transparent", "--l2", "0.01"],
    "admin": [*PLAIN, *POST_NORM, "--initializer", "admin", "--residual-scale", "admin"],
}
USUAL = ("merged-skipping",)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "data")


@pytest.fixture(scope="module", params=slow_but(USUAL, CASES))
def case(request: pytest.FixtureRequest) -> list[str]:
    """Options of fairseq-train."""
    return CASES[request.param]


@pytest.fixture(scope="module")
def two(case: list[str], data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where two processes have trained."""
    save = tmp_path_factory.mktemp("two")
    run(case, 2, data, save)
    return save


@pytest.fixture(scope="module")
def one(case: list[str], data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """What one process has trained on the same batches."""
    return run(case, 1, data, tmp_path_factory.mktemp("one"))


def test_two_processes_train_as_one(one: dict[str, torch.Tensor], two: Path) -> None:
    assert largest_difference(one, parameters(two)) < TOLERANCE
    assert "num_updates=" not in (two / "rank-1.log").read_text("utf-8")
    assert "Warning" not in (two / "rank-0.log").read_text("utf-8") + (two / "rank-1.log").read_text("utf-8")


@pytest.mark.slow
def test_four_processes_train_as_one(case: list[str], data: Path, tmp_path: Path) -> None:
    four, one = (run(case, processes, data, tmp_path / str(processes), batches=4) for processes in (4, 1))
    assert largest_difference(one, four) < TOLERANCE


def test_comparison_sees_a_batch_left_out(
    one: dict[str, torch.Tensor], case: list[str], data: Path, tmp_path: Path
) -> None:
    assert largest_difference(one, run(case, 1, data, tmp_path, batches=1)) > 100 * TOLERANCE


def test_two_processes_resume_to_the_same_end(case: list[str], two: Path, data: Path, tmp_path: Path) -> None:
    shutil.copy(two / f"checkpoint_3_{UPDATES // 2}.pt", tmp_path / "checkpoint_last.pt")
    resumed, uninterrupted = run(case, 2, data, tmp_path), parameters(two)
    assert f"checkpoint_last.pt (epoch 3 @ {UPDATES // 2} updates)" in (tmp_path / "rank-0.log").read_text("utf-8")
    assert resumed.keys() == uninterrupted.keys()
    assert all(resumed[name].equal(uninterrupted[name]) for name in resumed)


@pytest.mark.parametrize(
    ("loss", "update_freq"), slow_but([("_fused", 4)], itertools.product(("", "_fused"), (1, 2, 4)))
)
def test_short_updates_count_all_batches(data: Path, tmp_path: Path, loss: str, update_freq: int) -> None:
    # Seven batches an epoch: in its last update, the second process has one batch less, or none.
    options = ["--criterion", f"label_smoothed_cross_entropy{loss}", "--max-update", "6", "--disable-validation"]
    two, one = (run(options, count, data, tmp_path / str(count), batches=2 * update_freq) for count in (2, 1))
    assert largest_difference(one, two) < 1e-6


def torchrun(data: Path, save: Path, *options: str) -> tuple[list[str], dict[str, str]]:
    """The command that the README gives, for two processes, and its environment."""
    # Without --standalone, all of a machine's trainings want the same port.
    command = [str(BIN / "torchrun"), "--standalone", "--nproc_per_node", "2", str(BIN / "fairseq-train")]
    return [*command, *train_arguments(options, data, save)], {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
def test_torchrun_trains_as_one_process(data: Path, tmp_path: Path) -> None:
    one = run([], 1, data, tmp_path / "one")
    command, environment = torchrun(data, tmp_path / "two")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "training on 2 devices" in done.stdout
    assert largest_difference(one, parameters(tmp_path / "two")) < TOLERANCE


@pytest.mark.slow
def test_killed_worker_ends_the_run(data: Path, tmp_path: Path) -> None:
    command, environment = torchrun(data, tmp_path / "save", "--max-update", "1000000", "--no-save")
    log = tmp_path / "log"
    with log.open("w") as output, started(command, env=environment, stdout=output, stderr=output) as process:
        wait_until(lambda: "num_updates=" in log.read_text("utf-8"), process)
        workers = children(process.pid)
        assert len(workers) == 2
        os.kill(workers[1], signal.SIGKILL)
        assert process.wait(timeout=60) != 0
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text("ascii").split()]


def test_outputs_that_cannot_be_summed_are_gathered(tmp_path: Path) -> None:
    start(gather, (tmp_path,), 2, tmp_path)
    for rank in (0, 1):
        assert (tmp_path / f"gathered-{rank}").read_text("ascii") == "[['batch 0', 0], ['batch 1', 10]]"


def gather(folder: Path) -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    gathered = distributed_utils.all_gather_list([f"batch {rank}", torch.tensor(10 * rank)])
    (folder / f"gathered-{rank}").write_text(str([[text, int(tensor)] for text, tensor in gathered]), "ascii")


def test_fully_sharded_models_are_refused() -> None:
    cfg = config(ddp_backend="fully_sharded")
    for start_training in (lambda: distributed_utils.call_main(cfg, print), lambda: Trainer(cfg, None, None, None)):
        with pytest.raises(UserError, match="--ddp-backend must be c10d or legacy_ddp, but is fully_sharded, which "):
            start_training()


@pytest.mark.slow
def test_processes_without_torchrun_are_refused(data: Path, tmp_path: Path) -> None:
    # fairseq itself would train nothing here, and end with status 0.
    options = ["--distributed-world-size", "2", "--distributed-init-method", "tcp://127.0.0.1:2"]
    done = subprocess.run(
        [BIN / "fairseq-train", *train_arguments(options, data, tmp_path / "save")],
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 2
    assert [line for line in done.stderr.splitlines() if "error" in line.lower()] == [
        "deepnmt: error: --distributed-world-size must be 1 with --cpu, but is 2; several processes on the CPU are "
        "started by torchrun --nproc_per_node 2 $(which fairseq-train) ..."
    ]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "save").exists()


def config(**options: object) -> FairseqConfig:
    """What `fairseq-train --cpu` makes of these options of `DistributedTrainingConfig`."""
    result = OmegaConf.structured(FairseqConfig())
    result.common.cpu, result.optimizer = True, "adam"
    result.distributed_training.update(options)
    return result


def settled(**options: object) -> DistributedTrainingConfig:
    result = config(**options).distributed_training
    workers.settle(result)
    return result


@pytest.fixture
def third_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if torchrun had started this process, among four."""
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "WORLD_SIZE": "4", "RANK": "2"}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("third_of_four")
@pytest.mark.parametrize("given", [{}, {"distributed_world_size": 4, "distributed_rank": 2}])
def test_process_of_torchrun_takes_its_place(given: dict[str, object]) -> None:
    options = settled(**given)
    assert (options.distributed_world_size, options.distributed_rank) == (4, 2)
    assert (options.distributed_init_method, options.distributed_backend) == ("env://", "gloo")
    assert options.distributed_no_spawn


@pytest.mark.usefixtures("third_of_four")
def test_init_method_and_backend_that_are_given_stay() -> None:
    options = settled(distributed_init_method="tcp://127.0.0.1:2", distributed_backend="mpi")
    assert (options.distributed_init_method, options.distributed_backend) == ("tcp://127.0.0.1:2", "mpi")


@pytest.mark.usefixtures("third_of_four")
def test_world_size_that_contradicts_torchrun_is_refused() -> None:
    message = "--distributed-world-size must be 4, as torchrun has it, or left out, but is 3"
    with pytest.raises(UserError, match=message):
        settled(distributed_world_size=3)


def test_processes_started_one_by_one_are_left_alone() -> None:
    given = {
        "distributed_world_size": 2,
        "distributed_rank": 1,
        "distributed_no_spawn": True,
        "distributed_init_method": "tcp://127.0.0.1:2",
    }
    options = settled(**given)
    assert {name: options[name] for name in given} == given
    assert options.distributed_backend == "gloo"


@pytest.mark.usefixtures("third_of_four")
def test_machines_of_one_gpu_train_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed_utils, "infer_init_method", lambda _: None)  # it asks for the number of GPUs
    cfg, seen = config(distributed_world_size=1), []
    cfg.common.cpu = False
    distributed_utils.call_main(cfg, seen.append)
    assert [cfg.distributed_training.distributed_world_size for cfg in seen] == [4]


@pytest.mark.usefixtures("third_of_four")
def test_all_else_is_left_to_fairseq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed_utils, "distributed_main", lambda *_: pytest.fail("joined the other processes"))
    cfg = config(distributed_world_size=1)
    cfg.optimizer = None
    given, seen = OmegaConf.to_container(cfg), []
    distributed_utils.call_main(cfg, seen.append)
    assert [OmegaConf.to_container(cfg) for cfg in seen] == [given]


@pytest.mark.usefixtures("third_of_four")
def test_training_that_did_not_join_is_refused() -> None:
    with pytest.raises(UserError, match="must be set up for torchrun's 4 processes, but is not: give distributed_wo"):
        Trainer(config(), None, None, None)
