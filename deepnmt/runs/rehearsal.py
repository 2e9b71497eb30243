"""The start of a training, gone through once before torchrun starts its processes.

Each of them would refuse a faulty option, checkpoint or data folder by itself, and torchrun adds a report of forty
lines. So a child process, whose memory ends with it, does all that fairseq-train does before the first update.
"""

import logging
import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection

import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils
from fairseq_cli import train

from deepnmt.errors import UserError, user_message
from deepnmt.fairseq_patches.checks.training_checks import check_training
from deepnmt.fairseq_patches.process.refusals import refusal

# It has fairseq, which takes seconds to import.
FORK = multiprocessing.get_context("fork")


def rehearse(arguments: Sequence[str]) -> None:
    """Go through the start of a training. Raises `UserError` if fairseq-train would refuse its arguments.

    A defect is left to the training itself, which shows its traceback.
    """
    receiver, sender = FORK.Pipe(duplex=False)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    child = FORK.Process(target=_refuse, args=(list(arguments), sender), daemon=True)
    child.start()
    sender.close()
    try:
        said = receiver.recv()
    except EOFError:  # it was killed, perhaps for its memory
        said = None
    child.join()
    if said:
        raise UserError(*said.splitlines())


def _refuse(arguments: list[str], sender: Connection) -> None:
    """Send the lines of the refusal of these arguments; None if they are accepted."""
    # The training says the same once more.
    logging.disable(logging.CRITICAL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    # The threads of the process that this is a copy of are not here.
    torch.set_num_threads(1)
    sys.argv = ["fairseq-train", *arguments]
    said = None
    try:
        _start()
    except Exception as error:
        said = user_message(error) or refusal(error, error.__traceback__)
    except SystemExit:  # before the first update, or where there is nothing left to train
        pass
    sender.send(said)


def _start() -> None:
    """Run the steps of fairseq-train before the first update, in one process and on the CPU, and exit."""
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser()))
    check_training(cfg)
    # Without steps that need several processes or a GPU, or write: the master tries whether it can.
    cfg.common.cpu, cfg.common.log_file, cfg.dataset.num_workers = True, None, 0
    distributed = cfg.distributed_training
    distributed.distributed_rank, distributed.distributed_world_size, distributed.zero_sharding = 1, 1, "none"
    cfg.optimization.use_bmuf = False
    train.train = lambda *_: sys.exit()
    # Not `train.main` itself, whose options would be checked once more, as those of a training on the CPU.
    distributed_utils.call_main(cfg, lambda cfg: train.main(cfg))
