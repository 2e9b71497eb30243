"""What fairseq needs to work with a current torch and to fail politely; applied once, when the plug-in is imported.

Nothing here changes what a model computes; `keep_last_batch` gives it the sentences that fairseq loses.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask

from deepnmt.checkpoints.safe_types import SAFE_TYPES
from deepnmt.errors import UserError, show_user_errors

logger = logging.getLogger(__name__)

# Message and category of each warning that every run prints and no user can act on.
KNOWN_WARNINGS = (
    (r"Support for mismatched key_padding_mask and attn_mask is deprecated", UserWarning),
    (r"`?torch\.cuda\.amp\.", FutureWarning),
    (r"`torch\.jit", DeprecationWarning),
    (r"'pin_memory' argument is set as true but no accelerator is found", UserWarning),
    # From Hydra, about how fairseq uses it.
    (r"hydra\.experimental\..* is no longer experimental", UserWarning),
    (r"\s*In '.*': Usage of deprecated keyword in package header", UserWarning),
    (r"\s*In '.*': Defaults list is missing `_self_`", UserWarning),
    (r"\s*'.*' is validated against ConfigStore schema with the same name", UserWarning),
    (r"\s*The strict flag in the compose API is deprecated", UserWarning),
    (r"\s*The version_base parameter is not specified", UserWarning),
)


def apply() -> None:
    """Put all of it in place."""
    quieten()
    torch.serialization.add_safe_globals(SAFE_TYPES)
    forget_plugin_path()
    copy_whole_files()
    keep_last_batch()
    batch_alike_after_a_restart()
    stop_where_done()
    take_bf16_for_no_tpu()
    name_unreadable_checkpoints()
    name_misfitting_dictionaries()
    sys.excepthook = show_user_errors(sys.excepthook)


def quieten() -> None:
    """Silence `KNOWN_WARNINGS`, and undo the DEBUG level that importing fairseq leaves on the root logger."""
    if logging.getLogger().level == logging.DEBUG:
        logging.getLogger().setLevel(os.environ.get("LOGLEVEL", "INFO").upper())
    for message, category in KNOWN_WARNINGS:
        warnings.filterwarnings("ignore", message=message, category=category)


def forget_plugin_path() -> None:
    """Drop the folder that `--user-dir` puts first on `sys.path`, but keep the package importable in workers.

    Left first, a folder called `fairseq` beside the plug-in would hide the real one in spawned workers (fairseq
    issue 4875). Last, it still serves `import deepnmt` there.
    """
    parent = str(Path(__file__).resolve().parents[2])
    if sys.path and sys.path[0] == parent:
        sys.path.append(sys.path.pop(0))


def copy_whole_files() -> None:
    """Let a copied checkpoint appear whole or not at all: fairseq overwrites checkpoint_last.pt in place."""
    stock = PathManager.copy

    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        if PathManager.path_requires_pathmanager(dst_path):
            return bool(stock(src_path, dst_path, overwrite))
        temporary = f"{dst_path}.tmp"
        try:
            shutil.copyfile(src_path, temporary)
            os.replace(temporary, dst_path)
        finally:
            Path(temporary).unlink(missing_ok=True)
        return True

    PathManager.copy = staticmethod(copy)


def keep_last_batch() -> None:
    """Keep the last batch of a data set.

    fairseq's main branch (not 0.12.2) drops it where its size is no multiple of --required-batch-size-multiple, 8 by
    default: up to a batch of the longest sentences is missing from training, validation and, without a word, from the
    translations that are scored.
    """
    stock = data_utils.batch_by_size

    def batch_by_size(indices: Any, *args: Any, **kwargs: Any) -> Any:
        batches = stock(indices, *args, **kwargs)
        if kwargs.get("fixed_shapes") is not None or len(args) > 5:
            return batches
        kept = sum(len(batch) for batch in batches)
        # Batches are cut from the indices in their order.
        return [*batches, indices[kept:]] if kept < len(indices) else batches

    data_utils.batch_by_size = batch_by_size


def batch_alike_after_a_restart() -> None:
    """Let a training that is resumed in a later epoch have the batches that it had before.

    fairseq's main branch seeds the order of equally long sentences with the epoch in which the process starts, and
    keeps those batches for all the epochs that follow; here they are always those of the first.
    """
    stock = FairseqTask.get_batch_iterator

    def get_batch_iterator(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        epoch = kwargs.get("epoch", 1)
        made_once = not (
            args
            or kwargs.get("disable_iterator_cache")
            or kwargs.get("update_epoch_batch_itr")
            or getattr(self.cfg, "rebuild_batches", False)
            or dataset in self.dataset_to_epoch_iter
        )
        if epoch == 1 or not made_once:
            return stock(self, dataset, *args, **kwargs)
        iterator = stock(self, dataset, **{**kwargs, "epoch": 1})
        iterator.epoch = epoch
        dataset.set_epoch(epoch)
        return iterator

    FairseqTask.get_batch_iterator = get_batch_iterator


def stop_where_done() -> None:
    """End a training that has had its --max-update already: fairseq would make one more update at each start."""
    stock = checkpoint_utils.load_checkpoint

    def load_checkpoint(cfg: Any, trainer: Any, **kwargs: Any) -> Any:
        loaded = stock(cfg, trainer, **kwargs)
        most, done = trainer.cfg.optimization.max_update, trainer.get_num_updates()
        if 0 < most <= done:
            logger.info(f"nothing to train: {done} updates are done, and --max-update is {most}")
            raise SystemExit(0)
        return loaded

    checkpoint_utils.load_checkpoint = load_checkpoint


def take_bf16_for_no_tpu() -> None:
    """Let --bf16 train on GPUs and the CPU: fairseq's command line takes it for a TPU, and fails without torch_xla."""
    stock = distributed_utils.call_main

    def call_main(cfg: Any, main: Callable[..., object], **kwargs: Any) -> None:
        if cfg.common.bf16 and distributed_utils.xm is None:
            for options in (cfg.common, cfg.distributed_training, cfg.optimizer):
                if options is not None and "tpu" in options:
                    options.tpu = False
        stock(cfg, main, **kwargs)

    distributed_utils.call_main = call_main


def name_unreadable_checkpoints() -> None:
    """Name the file when a checkpoint is truncated, not one at all, or holds types that are not allowed."""
    stock = checkpoint_utils.load_checkpoint_to_cpu

    def load_checkpoint_to_cpu(path: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return stock(path, *args, **kwargs)
        except (FileNotFoundError, UserError):
            raise
        except Exception as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise UserError(f"{path}: must be a whole fairseq checkpoint, but cannot be read: {reason}") from error

    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu


def name_misfitting_dictionaries() -> None:
    """Say which embedding table does not fit, where fairseq says only that "the architectures" do not match."""
    stock = BaseFairseqModel.load_state_dict

    def load_state_dict(self: Any, state_dict: dict[str, torch.Tensor], *args: Any, **kwargs: Any) -> Any:
        own = self.state_dict()
        for name, tensor in state_dict.items():
            if name.endswith("embed_tokens.weight") and name in own and len(own[name]) != len(tensor):
                raise UserError(
                    f"dictionary must have the {len(tensor)} types of the checkpoint's {name}, "
                    f"but has {len(own[name])}; give the data folder that the model was trained on"
                )
        return stock(self, state_dict, *args, **kwargs)

    BaseFairseqModel.load_state_dict = load_state_dict
