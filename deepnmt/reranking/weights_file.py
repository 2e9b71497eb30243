"""Weights of features as a JSON file, with the models that the features are of."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deepnmt.errors import UserError
from deepnmt.reranking.bleu_statistics import Array
from deepnmt.text.record import read_record, write_record

FILE = "weights.json"
PER_TOKEN = "per_token"
MODELS = "models"


def read_weights(path: Path) -> dict[str, float]:
    """Return the weights in a file. Raises `UserError` if there are no weights, or one is not finite."""
    weights: dict[str, Any] = read_record(path, weights=dict)["weights"]
    for name, value in weights.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise UserError(f"{path}: the weight of '{name}' must be a finite number, but is {str(value)[:60]}")
    if not weights:
        raise UserError(f"{path}: no weights found")
    return {name: float(value) for name, value in weights.items()}


def is_per_token(path: Path) -> bool:
    """Return whether the weights in a file are of features per token. Raises `UserError` if the file is faulty."""
    found = read_record(path).get(PER_TOKEN, False)
    if not isinstance(found, bool):
        raise UserError(f"{path}: {PER_TOKEN} must be true or false, but is {str(found)[:60]}")
    return found


def as_option(path: Path, known: Sequence[str]) -> str:
    """Return the weights of known features in a file as text, such as "model=0.8,length=0.2".

    Raises:
        UserError: weights are missing, are for another feature, or are for features per token; see `read_weights`
    """
    _check_sums(path)
    weights = read_weights(path)
    if more := [name for name in weights if name not in known]:
        raise UserError(
            f"{path}: must have weights for {', '.join(known)} alone, but has one for {', '.join(more)}; tune with "
            f"--features {','.join(known)} and without other models"
        )
    return ",".join(f"{name}={value!r}" for name, value in weights.items())


def weights_for(path: Path, names: Sequence[str], per_token: bool = False) -> Array:
    """Return the weights of features, in their order; with `per_token`, they may be of features per token.

    Raises:
        UserError: the file lacks a feature, or has one that is not there, or is of features per token
    """
    if not per_token:
        _check_sums(path)
    weights = read_weights(path)
    if lacking := [name for name in names if name not in weights]:
        raise UserError(f"{path}: must have a weight for each of {', '.join(names)}, but lacks {', '.join(lacking)}")
    if more := [name for name in weights if name not in names]:
        raise UserError(
            f"{path}: must have weights for {', '.join(names)} alone, but has one for {', '.join(more)}, which no list "
            "and no --score, --reverse or --lm gives"
        )
    return np.array([weights[name] for name in names])


def check_kinds(path: Path, kinds: Mapping[str, str]) -> None:
    """Raise `UserError` if weights are of features that another option has given; `kinds` are these by name."""
    for name, said in read_record(path).get(MODELS, {}).items():
        before = said.get("option") if isinstance(said, dict) else None
        if before is not None and name in kinds and before != kinds[name]:
            raise UserError(f"{path}: the weight of '{name}' must be for {before} {name}=..., but is for {kinds[name]}")


def write_weights(
    path: Path, weights: Mapping[str, float], models: Mapping[str, Any], tuned: Mapping[str, Any], per_token: bool
) -> None:
    """Write weights, whether they are of features per token, the features' models, and how the weights were tuned."""
    record = {"weights": dict(weights), PER_TOKEN: per_token, MODELS: dict(models), "tuned": dict(tuned)}
    write_record(path, record)


def _check_sums(path: Path) -> None:
    """Raise `UserError` if the weights are of features per token."""
    if is_per_token(path):
        raise UserError(f"{path}: must be weights of sums here, but is of --per-token; tune without it")
