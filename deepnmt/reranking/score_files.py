"""Scores of a model, kept beside the result, so that a reranking that was stopped resumes with the next model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from deepnmt.console import whole_file

FOLDER = "scores"


def digest(checkpoints: Sequence[Path], facts: object) -> str:
    """Return what identifies scores: the contents of the checkpoints, and everything else that they depend on."""
    result = hashlib.sha256(json.dumps(facts).encode())
    for path in checkpoints:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                result.update(chunk)
    return result.hexdigest()


def kept_scores(path: Path, key: str) -> list[float] | None:
    """Return the scores in a file, or None if there are none with this key."""
    try:
        record = json.loads(path.read_text("utf-8"))
        return [float(score) for score in record["scores"]] if record["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_scores(path: Path, key: str, scores: Sequence[float]) -> None:
    """Write scores to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        temporary.write_text(json.dumps({"key": key, "scores": list(scores)}), encoding="utf-8")
