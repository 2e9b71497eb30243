"""Nearest neighbours: the tokens that followed similar decoder states (Khandelwal 2021, arXiv 2010.00710).

    P(y) = (1 - l) P_model(y) + l sum_k [y_k = y] p_k,   p = softmax_k( -|h - h_k|^2 / T )              (44)

k runs over the K entries of a datastore whose keys h_k are nearest to the state h. A datastore has an entry for each
target token of some text. The entry holds the token and the preceding state, which the model's output layer multiplies.

Shapes: R rows, one for each hypothesis; E entries; C channels; K neighbours; V types in W columns.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from deepnmt.errors import UserError
from deepnmt.search.candidates import best_candidates, whole_blocks
from deepnmt.text.record import DATASTORE, read_record

# Files of a datastore: E x C in half precision; E; and what it was made from.
KEYS, TYPES, RECORD = "keys.npy", "types.npy", DATASTORE

# Scores of rows and entries that are held at a time.
SCORES = 2**25
# What parameters are rounded to before they are compared: a model may be in half precision by now.
FINGERPRINTS = {"float16": torch.float16, "bfloat16": torch.bfloat16}


class Neighbours:
    """Mixes a model's predictions with its nearest neighbours' predictions, (44).

    Args:
        keys: E x C, of any floating type
        types: E, the tokens that followed
        number: K, at most E
        weight: l, from 0 to below 1
        temperature: T, above 0
    """

    def __init__(self, keys: Tensor, types: Tensor, number: int, weight: float, temperature: float) -> None:
        self.entries, self.number, self.weight, self.temperature = len(keys), number, weight, temperature
        missing = whole_blocks(len(keys)) - len(keys)
        # Entries that are never near fill the last block.
        self.keys = F.pad(keys.float(), (0, 0, 0, missing))
        self.offsets = F.pad(keys.float().square().sum(1) / -2, (0, missing), value=-math.inf)
        self.types = F.pad(types.long(), (0, missing))

    def nearest(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Return the neighbours of states R x C, the nearest first: half of |h|^2 - |h - h_k|^2, and places, R x K."""
        scores, places = [], []
        for rows in torch.split(states.float(), max(1, SCORES // len(self.keys))):
            of_all = torch.addmm(self.offsets, rows, self.keys.t())
            found = best_candidates(of_all, None, len(rows), self.entries, self.number)
            scores.append(found.sums)
            places.append(found.tokens)
        return torch.cat(scores), torch.cat(places)

    def __call__(self, log_probs: Tensor, states: Tensor) -> Tensor:
        """Return (44) in the place of the model's log-probabilities, R x W, that are made from states, R x C."""
        if self.weight == 0:
            return log_probs
        scores, places = self.nearest(states)
        # |h|^2 is the same for all neighbours.
        shares = torch.softmax(scores * (2 / self.temperature), 1) * self.weight
        types = self.types[places]
        same = types.unsqueeze(1).eq(types.unsqueeze(2))  # R x K x K
        of_type = torch.where(same, shares.unsqueeze(1), shares.new_zeros(())).sum(2).log_()
        log_probs += math.log1p(-self.weight)
        mixed = torch.logaddexp(log_probs.gather(1, types), of_type.to(log_probs.dtype))
        # Neighbours of one type write the same.
        return log_probs.scatter_(1, types, mixed)


def fingerprints(model: Any) -> dict[str, str]:
    """Return checksums of a model, by the type that its numbers are rounded to."""
    found = {name: hashlib.sha256() for name in FINGERPRINTS}
    for parameter in model.parameters():
        for name, digest in found.items():
            rounded = parameter.detach().cpu().to(FINGERPRINTS[name]).contiguous()
            digest.update(rounded.view(torch.uint8).numpy().tobytes())
    return {name: digest.hexdigest() for name, digest in found.items()}


def read_neighbours(options: Any, models: Sequence[Any], types: int) -> list[Neighbours]:
    """Return the neighbours of each model that the checked options of a search ask for; none if they do not.

    Raises:
        UserError: a folder is no datastore, or one of another model or number of types
    """
    if options.datastore is None:
        return []
    found = []
    for path, model in zip(options.datastore.split(":"), models):
        keys, following = _read(Path(path), model, types)
        if options.neighbours > len(keys):
            raise UserError(
                f"--neighbours: must be at most the entries of {path}, {len(keys)}, but is {options.neighbours}"
            )
        device = next(model.parameters()).device
        settings = options.neighbours, options.neighbour_weight, options.neighbour_temperature
        found.append(Neighbours(keys.to(device), following.to(device), *settings))
    return found


def option_faults(options: Any, models: Sequence[Any]) -> Iterator[str]:
    """Yield the faults in the options of neighbours, a line each."""
    if options.datastore is None:
        for name in options.given():
            if name.startswith("--neighbour"):
                yield f"{name}: must be given with --datastore alone"
        return
    paths = options.datastore.split(":")
    if len(paths) != len(models):
        yield f"--datastore: must be as many folders as models, {len(models)}, but is {options.datastore}"
    for path in paths:
        if not (Path(path) / RECORD).is_file():
            yield f"--datastore: must be a folder of deepnmt datastore, but '{path}' is none"


def _read(folder: Path, model: Any, types: int) -> tuple[Tensor, Tensor]:
    """Return keys and types of a folder. Raises `UserError` if they are faulty, or of another model."""
    said = read_record(folder / RECORD, model=dict)["model"]
    kind = "bfloat16" if next(model.decoder.parameters()).dtype == torch.bfloat16 else "float16"
    if said.get(kind) != fingerprints(model)[kind]:
        raise UserError(f"{folder}: must be made with the model that it is used with, but is of another")
    arrays = []
    for name in (KEYS, TYPES):
        try:
            # No mapping of the file, which may be replaced while the search goes on.
            arrays.append(torch.from_numpy(np.load(folder / name, allow_pickle=False)))
        except (OSError, ValueError, EOFError, TypeError) as error:
            raise UserError(f"{folder / name}: must be an array of numbers, but is not: {error}") from None
    keys, following = arrays
    if keys.dim() != 2 or not keys.is_floating_point() or following.shape != keys.shape[:1] or not len(keys):
        raise UserError(f"{folder}: must have a key for each type, but has {[*keys.shape]} and {[*following.shape]}")
    if following.is_floating_point() or not 0 <= int(following.min()) <= int(following.max()) < types:
        raise UserError(f"{folder / TYPES}: must be types of the dictionary, below {types}, but are others")
    if not keys.isfinite().all():
        raise UserError(f"{folder / KEYS}: must be finite, but is not")
    return keys, following
