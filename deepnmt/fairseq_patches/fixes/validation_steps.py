"""--max-valid-steps N validates N batches; fairseq's loop ends after one more."""

from typing import Any

from fairseq.data.iterators import EpochBatchIterator
from fairseq.trainer import Trainer

from deepnmt.fairseq_patches.patch import replaces


@replaces(Trainer, "get_valid_iterator", order=10, why="--max-valid-steps N validates N + 1 batches")
def take_as_many_as_asked(stock: Any, self: Any, *args: Any, **kwargs: Any) -> EpochBatchIterator:
    """Return the batches of a validation set, as many as are asked for."""
    iterator, most = stock(self, *args, **kwargs), self.cfg.dataset.max_valid_steps
    # fairseq keeps the object, and gives it again.
    if most is None or hasattr(iterator, "most"):
        return iterator
    every = iterator.next_epoch_itr

    def some(*args: Any, **kwargs: Any) -> Any:
        batches = every(*args, **kwargs)
        batches.take(min(most, len(batches)))
        return batches

    iterator.most, iterator.next_epoch_itr = most, some
    return iterator
