"""Results of models, kept beside what they are for, so that a command that was stopped resumes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from deepnmt.console import whole_file
from deepnmt.text.lines import open_file, whole_text

FOLDER = "scores"


def digest(checkpoints: Sequence[Path], facts: object) -> str:
    """Return what identifies a result: the contents of the checkpoints, and everything else that they depend on."""
    result = hashlib.sha256(json.dumps(facts).encode())
    for path in checkpoints:
        with open_file(path) as file:
            while chunk := file.read(1 << 20):
                result.update(chunk)
    return result.hexdigest()


def kept(path: Path, key: str) -> Any:
    """Return the result in a file, or None if there is none with this key."""
    try:
        record = json.loads(whole_text(path))
        return record["result"] if record["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(path: Path, key: str, result: object) -> None:
    """Write a result to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps({"key": key, "result": result}), encoding="utf-8")
