"""Read a fairseq checkpoint without running any code that it may hold, and say clearly what is wrong with one."""

from __future__ import annotations

import pickle
import re
import runpy
import struct
import zipfile
from pathlib import Path
from typing import Any

import torch

from deepnmt.errors import UserError

# Run by its path, since importing the package it belongs to would import fairseq, which takes seconds.
_TYPES = Path(__file__).resolve().parent.parent / "deepnmt" / "checkpoints" / "safe_types.py"
SAFE_TYPES: list[Any] = runpy.run_path(str(_TYPES))["SAFE_TYPES"]
# For good: torch's context manager would take them away again from a process that has allowed them already.
torch.serialization.add_safe_globals(SAFE_TYPES)

# Bytes that are no pickle make the unpickler fail in many ways.
_BAD_PICKLE = (
    pickle.UnpicklingError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """The contents of a checkpoint, its tensors on the CPU and, where possible, still on the disk (`mmap`).

    Raises `UserError` if the file is missing, truncated, not a fairseq checkpoint, or holds a type that is
    not in `SAFE_TYPES`.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint")
    with path.open("rb") as file:
        zipped = file.read(4) == b"PK\x03\x04"
    if zipped and not zipfile.is_zipfile(path):
        raise UserError(f"{path} is truncated: a checkpoint that was only partly written or copied")
    try:
        # Only torch's zip format, its default for years, can be mapped.
        state = torch.load(str(path), map_location="cpu", weights_only=True, mmap=zipped or None)
    except _BAD_PICKLE as error:
        forbidden = re.search(r"GLOBAL ([\w.]+)", str(error))
        if forbidden is None:
            raise UserError(f"{path} is not a checkpoint, or is truncated or damaged") from None
        raise UserError(
            f"{path} holds a {forbidden[1]}, which a checkpoint has no need of; it is not loaded, "
            "since that could run a program hidden in it"
        ) from None
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise UserError(f"{path} is not a fairseq checkpoint: it has no model")
    return state
