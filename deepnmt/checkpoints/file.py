"""Reads and writes checkpoints: the only module that opens torch's files; `safetensors_file.py` has the other format.

Files are read with weights only, so that code in them cannot run. Writes are atomic. Nothing here imports fairseq, so
that commands without fairseq can use it too.
"""

import os
import re
import zipfile
from argparse import Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from deepnmt.checkpoints import safetensors_file
from deepnmt.checkpoints.contents import check_contents, check_numbers
from deepnmt.checkpoints.untrusted import SAFE_TYPES, untrusted_faults
from deepnmt.console import whole_file
from deepnmt.errors import UserError, in_place_of

# Permanently: torch's context manager would disallow them again in a process that has allowed them already.
torch.serialization.add_safe_globals(SAFE_TYPES)


def load(path: Path, noun: str, kind: str, from_safetensors: Callable[[Path], Any] = safetensors_file.read) -> Any:
    """Return the contents of a torch file; if possible, its tensors stay on the disk until they are needed.

    `from_safetensors` reads a file in the other format.

    Raises:
        UserError: it is missing (`noun` names it), truncated, not of this `kind`, or holds forbidden types
    """
    must = f"{path}: must be {kind}, but"
    if not path.is_file():
        if not os.path.lexists(path):
            raise in_place_of(FileNotFoundError, f"{path}: no such {noun}")
        if path.is_dir():
            raise in_place_of(IsADirectoryError, f"{must} is a folder")
        state = "is not a file" if os.path.exists(path) else "is a broken link"
        raise in_place_of(FileNotFoundError, f"{must} {state}")
    try:
        if path.suffix == safetensors_file.ENDING:
            return from_safetensors(path)
        with path.open("rb") as file:
            begins_as_zip = file.read(4) == b"PK\x03\x04"
        if begins_as_zip and not zipfile.is_zipfile(path):
            raise in_place_of(RuntimeError, f"{must} is truncated: only partly written or copied")
        # Only torch's zip format, its default for years, can be mapped.
        return torch.load(path, map_location="cpu", weights_only=True, mmap=begins_as_zip)
    except (UserError, MemoryError):
        raise
    except OSError as error:
        raise in_place_of(type(error), f"{must} cannot be read: {error.strerror or error}") from error
    except Exception as error:  # the unpickler fails in many ways on other bytes than a pickle
        forbidden = re.search(r"GLOBAL ([\w.]+)", str(error))
        if forbidden is None:
            raise in_place_of(type(error), f"{must} is another file, truncated or damaged") from error
        raise in_place_of(
            type(error),
            f"{must} holds a {forbidden[1]}, which it does not need; it is not loaded, since that could run a "
            "program hidden in it",
        ) from error


def read(path: str | Path, numbers: bool = True) -> dict[str, Any]:
    """Return the contents of a fairseq checkpoint, after checking its parts and their kinds.

    Without `numbers`, its numbers may be infinite: a reader of a large file's options need not check them.

    Raises:
        UserError: see `load`, `check_untrusted`, `check_contents` and `check_numbers`
    """
    state = load(Path(path), "checkpoint", "a whole fairseq checkpoint")
    check_untrusted(state, str(path))
    check_contents(state, str(path))
    if numbers:
        check_numbers(state["model"], str(path))
    contents: dict[str, Any] = state
    return contents


def check_untrusted(contents: Any, name: str) -> None:
    """Raise `UserError`, a line for each, if options in the file `name` would be evaluated or expanded."""
    if isinstance(contents, dict):
        args = contents.get("args")
        faults = [
            *untrusted_faults(contents.get("cfg")),
            *untrusted_faults(vars(args) if isinstance(args, Namespace) else args),
        ]
        if faults:
            raise UserError(*(f"{name}: {fault}" for fault in faults))


def check_target(source: Path, target: Path) -> None:
    """Raise `UserError` if the target exists, or cannot be written."""
    if os.path.realpath(target) == os.path.realpath(source):
        raise UserError(f"{target}: the new checkpoint must not be the old one")
    if os.path.lexists(target):
        raise UserError(f"{target}: the new checkpoint exists already")
    if not target.parent.is_dir():
        raise UserError(f"{target.parent}: the folder of the new checkpoint was not found")


def write(
    state: Mapping[str, Any],
    target: Path,
    names: Mapping[str, str] | None = None,
    also: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a checkpoint atomically, in the format of its ending. Raises `UserError` if the disk is full or refuses.

    Args:
        state: its contents
        target: its path
        names, also: see `safetensors_file.write`
    """
    with whole_file(target) as temporary:
        if target.suffix == safetensors_file.ENDING:
            safetensors_file.write(state, temporary, names or {}, also or {})
            return
        with temporary.open("wb") as file:
            torch.save(state, file)
