"""`--pair-weights`: the weight of each pair in training.

    loss = sum_k w_k L_k / sum_k w_k n_k

for pairs k of an update, with losses L_k summed over their n_k target tokens. A weight of 2 has the effect of two
copies; a pair of weight 0 is not trained on.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from fairseq.data import BaseWrapperDataset

from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines

WEIGHTS, TOKENS, PAIRS = "pair_weights", "weighted_tokens", "weighted_pairs"
Weights = npt.NDArray[np.float64]


def read_weights(path: Path, pairs: int) -> Weights:
    """Return the weights in a file: one number per line, optionally after a line with a heading.

    Raises:
        UserError: the file is missing, or lacks a finite weight of at least 0 for each pair, or has only zeros
    """
    if not path.is_file():
        raise UserError(f"--pair-weights: no such file '{path}'")
    weights = []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            weight = float(line)
        except ValueError:
            if number == 1:
                continue
            weight = math.nan
        if not 0 <= weight < math.inf:
            raise UserError(f"{path}:{number}: must be a finite number of at least 0, but is '{line.strip()[:40]}'")
        weights.append(weight)
    if len(weights) != pairs:
        raise UserError(f"{path}: must have a weight for each of the {pairs} training pairs, but has {len(weights)}")
    if not any(weights):
        raise UserError(f"{path}: must have a weight above 0, but all {pairs} are 0")
    return np.array(weights)


class WeightedPairs(BaseWrapperDataset):  # type: ignore[misc]
    """Pairs of fairseq's `LanguagePairDataset`, or one around it, and the weights of their batches."""

    def __init__(self, pairs: Any, weights: Weights) -> None:
        super().__init__(pairs)
        self.weights = weights

    def ordered_indices(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the trained pairs, in the order of batching."""
        indices: npt.NDArray[np.int64] = super().ordered_indices()
        return indices[self.weights[indices] > 0]

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a batch, with the weights of its pairs, and the weighted numbers of target tokens and pairs."""
        batch: dict[str, Any] = super().collater(samples)
        if batch:
            # In double precision, which fairseq does not halve for --fp16.
            weights = torch.from_numpy(self.weights[batch["id"].numpy()])
            lengths = {sample["id"]: len(sample["target"]) for sample in samples}
            tokens = torch.tensor([lengths[number] for number in batch["id"].tolist()])
            batch |= {WEIGHTS: weights, TOKENS: float(weights @ tokens.double()), PAIRS: float(weights.sum())}
        return batch
