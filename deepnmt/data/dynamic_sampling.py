"""`--sample-share`: an epoch has the pairs whose loss is still falling (Wang 2018, ACL, P18-2048).

A pair's losses of its last two passes, per token, give the relative fall d, and its weight w among all pairs:

    d = (before - last) / before,    w = (d - min d) / (max d - min d)                                         (57)

After the warm-up, each epoch draws a share of the pairs, one after the other without replacement, with probabilities
proportional to w. The others rest, and keep their d. Pairs without two losses are always trained on.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from fairseq.data import BaseWrapperDataset
from torch import Tensor

from deepnmt.errors import UserError

# Name of the losses beside the position in a checkpoint.
LOSSES = "pair_losses"
Floats = npt.NDArray[np.float64]


class PairLosses:
    """The losses of all training pairs, and the pairs that rest in the current epoch.

    Attributes:
        before: loss of each pair in the pass before the last; NaN where there was none
        last: loss of each pair in its last pass
        rests: whether each pair rests
        epoch: epoch of `rests`; 0 before the first one
    """

    def __init__(self, pairs: int) -> None:
        self.before, self.last = torch.full((pairs,), torch.nan), torch.full((pairs,), torch.nan)
        self.rests, self.epoch = torch.zeros(pairs, dtype=torch.bool), 0

    def __len__(self) -> int:
        return len(self.last)

    def state(self) -> dict[str, Any]:
        """Return the contents, for a checkpoint."""
        return {"before": self.before, "last": self.last, "rests": self.rests, "epoch": self.epoch}

    @classmethod
    def of(cls, state: Any, name: str) -> "PairLosses":
        """Return the losses in a checkpoint. Raises `UserError` if they are damaged; `name` is the checkpoint's."""
        losses = cls(0)
        for key, own in losses.state().items():
            value: Any = state.get(key) if isinstance(state, dict) else None
            if type(value) is not type(own) or getattr(value, "dtype", None) != getattr(own, "dtype", None):
                raise UserError(f"{name}: extra_state.{LOSSES}.{key} must be what --sample-share stores, but is not")
            setattr(losses, key, value)
        if not len(losses.before) == len(losses.last) == len(losses.rests):
            raise UserError(f"{name}: extra_state.{LOSSES} must have the same pairs in all parts, but has not")
        return losses

    def record(self, pairs: Tensor, losses: Tensor) -> None:
        """Take the losses of some pairs in an update."""
        self.before[pairs] = self.last[pairs]
        self.last[pairs] = losses

    def start(self, epoch: int, share: float, warmup: int, seed: int) -> None:
        """Choose the pairs that rest in an epoch, unless they are already chosen."""
        if epoch == self.epoch:
            return
        self.epoch = epoch
        self.rests = torch.zeros_like(self.rests)
        falls = ((self.before - self.last) / self.before).double().numpy()
        known = np.flatnonzero(np.isfinite(falls))
        if epoch > warmup and len(known):
            resting = drawn_last(weights(falls[known]), share, np.random.default_rng((seed, epoch)))
            self.rests[torch.from_numpy(known[resting])] = True


def weights(falls: Floats) -> Floats:
    """Return w of (57), or ones if all falls are equal."""
    low, high = falls.min(), falls.max()
    return (falls - low) / (high - low) if high > low else np.ones_like(falls)


def drawn_last(weights: Floats, share: float, draw: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the numbers that are not among the first `share` of all, rounded up, drawn without replacement.

    The first of exponential arrival times with these rates are such a draw (Efraimidis and Spirakis 2006).
    """
    with np.errstate(divide="ignore"):
        times = draw.exponential(size=len(weights)) / weights
    return np.argsort(times, kind="stable")[int(np.ceil(share * len(weights))) :]


class SampledPairs(BaseWrapperDataset):  # type: ignore[misc]
    """Pairs of fairseq's `LanguagePairDataset`, or one around it, without the resting ones."""

    # fairseq makes the batches of an epoch anew for data sets that request it.
    can_reuse_epoch_itr_across_epochs = False

    def __init__(self, pairs: Any, losses: PairLosses, share: float, warmup: int, seed: int) -> None:
        super().__init__(pairs)
        self.losses, self.share, self.warmup, self.seed = losses, share, warmup, seed

    def set_epoch(self, epoch: int) -> None:
        """Choose the pairs of an epoch; fairseq calls this more than once per epoch."""
        super().set_epoch(epoch)
        self.losses.start(epoch, self.share, self.warmup, self.seed)

    def ordered_indices(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the epoch's pairs, in the order of batching."""
        indices: npt.NDArray[np.int64] = super().ordered_indices()
        awake: npt.NDArray[np.bool_] = ~self.losses.rests.numpy()
        return indices[awake[indices]]
