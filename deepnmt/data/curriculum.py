"""`--competence`: a training begins with easy pairs (Platanios 2019, NAACL, arXiv 1903.09848).

After t updates, the batches have only pairs whose difficulty d is at most the competence:

    sqrt      c(t) = min(1, sqrt(t (1 - c0^2) / T + c0^2))
    linear    c(t) = min(1, t (1 - c0) / T + c0)                                                               (54)

The difficulty of a pair is its rank: the share of pairs that are at most as long, or at most as rare.

fairseq makes batches once per epoch. As long as c < 1, an epoch therefore has K updates: epoch e begins after (e - 1) K
updates. Nothing is stored, and each number of processes has the same competence at the same update. The batches of such
an epoch are drawn from all batches of the easy pairs, each of them before any occurs again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from fairseq.data import BaseWrapperDataset

from deepnmt.errors import UserError

NONE, SQRT, LINEAR = KINDS = ("none", "sqrt", "linear")
# Epochs of a curriculum, unless --competence-every says otherwise.
EPOCHS = 20
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Curriculum:
    """The growth of the competence.

    Attributes:
        kind: sqrt or linear
        updates: T, at least 1, after which all pairs are trained on
        start: c0, above 0 and below 1
        every: K, updates of an epoch, at least 1
    """

    kind: str
    updates: int
    start: float
    every: int

    def competence(self, update: int) -> float:
        """Return c(t) of (54)."""
        if update >= self.updates:
            return 1.0
        share = update / self.updates
        if self.kind == SQRT:
            return math.sqrt(share * (1 - self.start**2) + self.start**2)
        return share * (1 - self.start) + self.start

    def in_epoch(self, epoch: int) -> float:
        """Return the competence at the start of an epoch, from 1."""
        return self.competence((epoch - 1) * self.every)


class CompetentPairs(BaseWrapperDataset):  # type: ignore[misc]
    """The pairs of fairseq's `LanguagePairDataset`, or one around it, that are easy enough for an epoch.

    Args:
        pairs: the pairs
        curriculum: the growth of the competence
        difficulties: rank of each pair, above 0 and at most 1
        update_freq: batches of each process in an update, by epoch; the last number is for all later ones
        seed: of the training

    Attributes:
        processes: number of processes that share the batches
    """

    # fairseq makes the batches of an epoch anew for data sets that request it.
    can_reuse_epoch_itr_across_epochs = False

    def __init__(
        self, pairs: Any, curriculum: Curriculum, difficulties: Floats, update_freq: Sequence[int], seed: int
    ) -> None:
        super().__init__(pairs)
        self.curriculum, self.difficulties, self.update_freq, self.seed = curriculum, difficulties, update_freq, seed
        self.processes, self.epoch = 1, 1

    def set_epoch(self, epoch: int) -> None:
        """Take the pairs of an epoch; fairseq calls this more than once per epoch."""
        super().set_epoch(epoch)
        self.epoch = epoch

    def ordered_indices(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the easy pairs, in the order of batching."""
        indices: npt.NDArray[np.int64] = super().ordered_indices()
        return indices[self.difficulties[indices] <= self.curriculum.in_epoch(self.epoch)]

    def batch_by_size(
        self,
        indices: npt.NDArray[np.int64],
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> Any:
        """Return the batches of an epoch. Raises `UserError` if the easy pairs do not fill a batch."""
        within = self.curriculum.in_epoch(self.epoch) < 1
        batches: Any = []
        if len(indices) or not within:
            batches = super().batch_by_size(indices, max_tokens, max_sentences, required_batch_size_multiple)
        if not within:
            return batches
        if len(batches) < 2 and not self._is_full(indices, max_tokens, max_sentences):
            raise UserError(
                f"--competence-start must leave enough pairs for a batch, but is {self.curriculum.start:g}, which "
                f"leaves {len(indices)} of {len(self)} in epoch {self.epoch}"
            )
        frequency = self.update_freq[min(self.epoch, len(self.update_freq)) - 1]
        wanted = self.curriculum.every * frequency * self.processes
        draw = np.random.default_rng((self.seed, self.epoch))
        times = -(-wanted // len(batches))
        order = np.concatenate([draw.permutation(len(batches)) for _ in range(times)])[:wanted]
        return [batches[number] for number in order]

    def _is_full(self, indices: npt.NDArray[np.int64], max_tokens: int | None, max_sentences: int | None) -> bool:
        """Return whether pairs of one batch leave no room for another."""
        if not len(indices):
            return False
        longest = max(map(self.num_tokens, indices))
        full = max_sentences is not None and len(indices) >= max_sentences
        return full or (max_tokens is not None and (len(indices) + 1) * longest > max_tokens)
