"""`--pair-weights` and `--set-weights`: the weight of each pair, or of each set of pairs, in training.

    loss = sum_k w_k L_k / sum_k w_k n_k                                                                       (55)

for pairs k of an update, with losses L_k summed over their n_k target tokens. A weight of 2 has the effect of two
copies; a pair of weight 0 is not trained on. Each pair of a set has the set's weight; with both options, the weights
are multiplied.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
import numpy.typing as npt
import torch
from fairseq.data import BaseWrapperDataset, ConcatDataset
from fairseq.utils import split_paths

from deepnmt.data.numbers_file import read_numbers
from deepnmt.errors import UserError
from deepnmt.options.option_table import option
from deepnmt.text.record import read_record
from deepnmt.text.settings import RECORD

WEIGHTS, TOKENS, PAIRS = "pair_weights", "weighted_tokens", "weighted_pairs"
Weights = npt.NDArray[np.float64]


def requested_weights(cfg: Any, sources: Any) -> Optional[Weights]:
    """Return the weight of each training pair by a task's options, or None; `sources` are fairseq's, of all pairs.

    Raises:
        UserError: the weights do not fit the pairs, or DATA is several folders
    """
    asked = [option(name) for name in ("pair_weights", "set_weights") if getattr(cfg, name)]
    if not asked:
        return None
    if len(split_paths(cfg.data)) > 1:
        raise UserError(f"{asked[0]} needs a single data folder, but DATA names several")
    weights = np.ones(len(sources))
    if cfg.set_weights:
        weights *= weights_of_sets(cfg.set_weights, set_sizes(Path(cfg.data), sources))
    if cfg.pair_weights:
        weights *= read_weights(Path(cfg.pair_weights), len(sources))
    return weights


def read_weights(path: Path, pairs: int) -> Weights:
    """Return the weights in a file: one number per line, optionally after a line with a heading.

    Raises:
        UserError: the file is missing, or lacks a finite weight of at least 0 for each pair, or has only zeros
    """
    weights = read_numbers(path, pairs, "--pair-weights", "weight", 0)
    if not weights.any():
        raise UserError(f"{path}: must have a weight above 0, but all {pairs} are 0")
    return weights


def set_sizes(folder: Path, sources: Any) -> Sequence[int]:
    """Return the number of pairs of each training set.

    The sets are fairseq's files `train`, `train1` and so on; the first has its copies by --upsample-primary. A folder
    of `deepnmt mix` has one file, with two sets: all copies of the real pairs, and the rest.

    Args:
        folder: data folder
        sources: fairseq's data set of the sources of all training pairs
    """
    if isinstance(sources, ConcatDataset):
        ends = sources.cumulative_sizes
        return [end - begin for begin, end in zip([0, *ends], ends)]
    path, real = folder / RECORD, len(sources)
    # Only deepnmt mix records copies.
    if path.is_file() and "upsample" in read_record(path):
        record = read_record(path, upsample=int, counts=dict)
        real = record["upsample"] * record["counts"]["train"]["real"]
    return [real, len(sources) - real] if real < len(sources) else [real]


def weights_of_sets(text: str, sizes: Sequence[int]) -> Weights:
    """Return each pair's weight from the sets' weights, such as `1,0.5`. Raises `UserError` if they do not fit."""
    weights = list(map(float, text.split(",")))
    if len(weights) != len(sizes):
        sets = f"the {len(sizes)} training sets ({', '.join(map(str, sizes))} pairs)"
        raise UserError(f"--set-weights must have a weight for each of {sets}, but has {len(weights)}")
    return np.repeat(np.array(weights), sizes)


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
