"""Checkpoints on the disk: written whole, and named where they cannot be read or do not fit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.models import BaseFairseqModel
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.fairseq_patches.patch import replaces


@replaces(
    PathManager,
    "copy",
    "(src_path, dst_path, overwrite=False)",
    order=10,
    why="a copied checkpoint appears whole or not at all; fairseq overwrites checkpoint_last.pt in place",
)
def copy_whole_file(stock: Any, src_path: str, dst_path: str, overwrite: bool = False) -> bool:
    """Copy to a temporary name, then rename."""
    if PathManager.path_requires_pathmanager(dst_path):
        return bool(stock(src_path, dst_path, overwrite))
    temporary = f"{dst_path}.tmp"
    try:
        shutil.copyfile(src_path, temporary)
        os.replace(temporary, dst_path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return True


@replaces(
    checkpoint_utils,
    "load_checkpoint_to_cpu",
    "(path, arg_overrides=None, load_on_all_ranks=False)",
    order=10,
    why="the file is named where it is truncated, no checkpoint, or holds types that are not allowed",
)
def name_unreadable_checkpoint(stock: Any, path: str, *args: Any, **kwargs: Any) -> Any:
    """Read, or say which file cannot be read.

    Raises:
        UserError: the file is there and cannot be read
    """
    try:
        return stock(path, *args, **kwargs)
    except (FileNotFoundError, UserError):
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"{path}: must be a whole fairseq checkpoint, but cannot be read: {reason}") from error


@replaces(
    BaseFairseqModel,
    "load_state_dict",
    "(self, state_dict, strict=True, model_cfg=None, args=None)",
    order=10,
    why='says which dictionary does not fit, where fairseq says that "the architectures" do not match',
)
def name_misfitting_dictionary(stock: Any, self: Any, state_dict: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
    """Load, or say which embedding table has another number of types.

    Raises:
        UserError: one has
    """
    own = self.state_dict()
    for name, tensor in state_dict.items():
        if name.endswith("embed_tokens.weight") and name in own and len(own[name]) != len(tensor):
            raise UserError(
                f"dictionary must have the {len(tensor)} types of the checkpoint's {name}, "
                f"but has {len(own[name])}; give the data folder that the model was trained on"
            )
    return stock(self, state_dict, *args, **kwargs)
