"""Training in several processes, in which fairseq silently fails on the CPU.

    torchrun --nproc_per_node 2 $(which fairseq-train) DATA --user-dir deepnmt --cpu ...

trains one model in two processes. Three fixes concern GPUs too. Machines of one GPU each train together, a resumed
training's checkpoint can be read, and a lost process is reported as lost.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

import torch
from fairseq import utils
from fairseq.distributed import utils as distributed_utils
from fairseq.models import distributed_fairseq_model
from fairseq.trainer import Trainer
from torch import distributed

from deepnmt.errors import UserError, in_place_of
from deepnmt.fairseq_patches.patch import replaces

# torchrun's variables for each process that it starts.
TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
# gloo's message, in a bare RuntimeError, when a process at the other end has ended.
LOST = re.compile("Connection (closed|reset) by peer|Connection refused|Timed out waiting|Broken pipe")


def processes_of_torchrun() -> int:
    """Return how many processes torchrun started, this one among them; 1 without torchrun."""
    return int(os.environ["WORLD_SIZE"]) if all(name in os.environ for name in TORCHRUN) else 1


@replaces(distributed_utils, "call_main", order=30, why="torchrun's processes train apart on the CPU; name a lost one")
def join_processes(stock: Any, cfg: Any, main: Callable[..., object], **kwargs: Any) -> None:
    """Join the processes that torchrun started, or refuse a start that would train nothing.

    fairseq counts GPUs. Under torchrun it takes the rank modulo their number, zero; without --distributed-world-size
    it has each process train alone, in the same folder. Without torchrun it starts no process at all and exits with
    status 0.
    """
    # Only a training has an optimizer; other commands may well do the same in each process.
    if cfg.optimizer is None:
        stock(cfg, main, **kwargs)
        return
    refuse_fully_sharded(cfg)
    if cfg.common.cpu:
        settle(cfg.distributed_training)
    elif cfg.distributed_training.distributed_world_size == 1:
        # fairseq counts the GPUs of this machine: machines with one each would train alone, in the same folder.
        cfg.distributed_training.distributed_world_size = processes_of_torchrun()
    with lost_processes_named():
        stock(cfg, main, **kwargs)


def refuse_fully_sharded(cfg: Any) -> None:
    """Refuse --ddp-backend fully_sharded: nobody has trained this package's models with it.

    Raises:
        UserError: it is given
    """
    if cfg.distributed_training.ddp_backend == "fully_sharded":
        raise UserError(
            "--ddp-backend must be c10d or legacy_ddp, but is fully_sharded, which has never been run with deepnmt"
        )


@contextmanager
def lost_processes_named() -> Iterator[None]:
    """Say in one line that another process has ended, which every operation on all processes then fails by.

    Raises:
        UserError: for the backend's error, which names addresses and source files
    """
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, distributed.DistError) and not LOST.search(str(error)):
            raise
        raise in_place_of(
            type(error),
            "another process of this training has ended or cannot be reached; run the same command again to resume "
            f"from the last checkpoint ({str(error).splitlines()[0]})",
        ) from error


def settle(options: Any) -> None:
    """Fill in the options of fairseq's `DistributedTrainingConfig` for the CPU: from torchrun's environment, with gloo.

    Raises:
        UserError: torchrun started another number of processes, or nothing starts as many as asked
    """
    asked, started = options.distributed_world_size, processes_of_torchrun()
    # fairseq's commands have one of the first two as default: as good as not given.
    if started > 1 and asked not in (1, torch.cuda.device_count(), started):
        raise UserError(f"--distributed-world-size must be {started}, as torchrun has it, or left out, but is {asked}")
    if started > 1:
        options.distributed_world_size = started
        options.distributed_rank = int(os.environ["RANK"])
        options.distributed_no_spawn = True
        options.distributed_init_method = options.distributed_init_method or "env://"
    elif asked > 1 and not options.distributed_no_spawn:
        raise UserError(
            f"--distributed-world-size must be 1 with --cpu, but is {asked}; several processes on the CPU are started "
            f"by torchrun --nproc_per_node {asked} $(which fairseq-train) ..."
        )
    if options.distributed_backend == "nccl":
        options.distributed_backend = "gloo"


@replaces(
    distributed_fairseq_model, "DistributedDataParallel", order=10, why="c10d asks for a GPU on the CPU (issue 2879)"
)
def wrap_without_device(stock: Any, module: torch.nn.Module, **options: Any) -> Any:
    """Wrap a model on the CPU without naming a device."""
    if all(parameter.device.type == "cpu" for parameter in module.parameters()):
        options.update(device_ids=None, output_device=None)
    return stock(module=module, **options)


@replaces(distributed_utils, "all_gather_list", order=10, why="logging outputs are gathered in a GPU's buffer")
def gather_without_gpu(stock: Any, data: Any, group: Optional[Any] = None, max_size: int = 16384) -> Any:
    """Gather objects of all processes, without fairseq's buffer where there is no GPU."""
    if torch.cuda.is_available():
        return stock(data, group, max_size)
    group = group or distributed_utils.get_global_group()
    gathered: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(gathered, utils.move_to_cpu(data), group)
    return gathered


@replaces(distributed_utils, "_broadcast_object_slow", order=10, why="a training of several processes can be resumed")
def broadcast_any_type(stock: Any, obj: Any, src_rank: int, group: Any, dist_device: torch.device) -> Any:
    """Broadcast the checkpoint that rank 0 has read.

    fairseq's receivers read it with `torch.load`, which by now refuses the types that rank 0 has put in, placeholders
    for the tensors and OmegaConf's nodes. The file itself is still read with weights only.
    """
    box = [obj]
    distributed.broadcast_object_list(box, src=src_rank, group=group, device=dist_device)
    return box[0]


@replaces(Trainer, "__init__", order=10, why="fairseq-hydra-train imports the plug-in too late for join_processes")
def refuse_to_train_alone(stock: Any, self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Refuse to train as if alone among the processes of torchrun, or fully sharded.

    Raises:
        UserError: the process has not joined the others, or the model is fully sharded
    """
    refuse_fully_sharded(cfg)
    started = processes_of_torchrun()
    if cfg.common.cpu and started > 1 and not distributed.is_initialized():
        raise UserError(
            f"distributed_training must be set up for torchrun's {started} processes, but is not: give "
            f"distributed_world_size={started} distributed_rank=-1 distributed_no_spawn=true "
            "distributed_init_method=env:// distributed_backend=gloo"
        )
    stock(self, cfg, *args, **kwargs)
