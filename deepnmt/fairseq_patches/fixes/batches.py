"""Batches: no batch is lost, a restart gets the same ones, and a short update's batches are counted."""

import logging
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from fairseq.data import data_utils
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from fairseq.dataclass.configs import OptimizationConfig
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from deepnmt.errors import UserError, in_place_of
from deepnmt.fairseq_patches.patch import replaces, sets

logger = logging.getLogger(__name__)

# Of a position in the data: the batches that each process has had of the epoch; beside it, how many the epoch has for
# all of them together, and how many processes share these.
POSITION, BATCHES, SHARDS = "iterations_in_epoch", "batches", "shards"


@replaces(
    data_utils, "batch_by_size", order=10, why="a last batch below --required-batch-size-multiple is lost (issue 5036)"
)
def keep_last_batch(stock: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
    """Add the batch that fairseq 0.12.3 drops.

    Without it, up to a batch of the longest sentences is missing from training, validation and, without a word, from
    the translations that are scored.
    """
    try:
        batches = stock(indices, *args, **kwargs)
    except IndexError:
        if len(indices):
            raise
        raise in_place_of(
            IndexError,
            "--max-source-positions and --max-target-positions must admit some sentences of the data, but admit none",
        ) from None
    if kwargs.get("fixed_shapes") is not None or len(args) > 5:
        return batches
    kept = sum(len(batch) for batch in batches)
    # Batches are cut from the indices in their order.
    return [*batches, indices[kept:]] if kept < len(indices) else batches


@replaces(data_utils, "batch_by_size", order=20, why="a sentence longer than a batch is a user's fault")
def name_long_sentences(stock: Any, *args: Any, **kwargs: Any) -> Any:
    """Cut the batches, or say that a sentence does not fit into one. Raises `UserError` for that."""
    try:
        return stock(*args, **kwargs)
    except AssertionError as error:
        if "max_tokens=" not in str(error):
            raise
        most = str(error).split("max_tokens=")[-1]
        raise in_place_of(
            AssertionError, f"--max-tokens must be at least the tokens of the longest sentence, but is {most}"
        ) from None


@replaces(FairseqTask, "filter_indices_by_size", order=10, why="a sentence beyond the positions is a user's fault")
def name_sentences_beyond_positions(
    stock: Any, self: Any, indices: Any, dataset: Any, max_positions: Any = None, ignore_invalid_inputs: bool = False
) -> Any:
    """Leave the sentences out that are longer than the positions. Raises `UserError` if none may be left out."""
    if ignore_invalid_inputs or not isinstance(max_positions, tuple) or len(max_positions) != 2:
        return stock(self, indices, dataset, max_positions, ignore_invalid_inputs)
    kept, longer = dataset.filter_indices_by_size(indices, max_positions)
    if len(longer):
        raise UserError(
            "--max-source-positions and --max-target-positions must be at least the tokens of a sentence, but are "
            f"{max_positions[0]} and {max_positions[1]}. {len(longer)} of the {len(indices)} sentences have more, "
            f"the first of them sentence {longer[0] + 1}; --skip-invalid-size-inputs-valid-test leaves them out"
        )
    return kept


@replaces(FairseqTask, "get_batch_iterator", order=10, why="a training resumed in a later epoch gets other batches")
def keep_batches_across_restarts(stock: Any, self: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
    """Make the batches as in the first epoch.

    fairseq's main branch seeds the order of equally long sentences with the epoch in which the process starts. It keeps
    these batches for all following epochs.
    """
    epoch = kwargs.get("epoch", 1)
    made_once = not (
        args
        or kwargs.get("disable_iterator_cache")
        or kwargs.get("update_epoch_batch_itr")
        or not self.can_reuse_epoch_itr(dataset)
        or getattr(self.cfg, "rebuild_batches", False)
        or dataset in self.dataset_to_epoch_iter
    )
    if epoch == 1 or not made_once:
        return stock(self, dataset, *args, **kwargs)
    iterator = stock(self, dataset, **{**kwargs, "epoch": 1})
    iterator.epoch = epoch
    dataset.set_epoch(epoch)
    return iterator


@replaces(Trainer, "get_train_iterator", order=10, why="--update-ordered-indices-seed acts only after a restart")
def make_batches_anew(stock: Any, self: Any, epoch: int, *args: Any, **kwargs: Any) -> Any:
    """Make the batches of each epoch if they depend on it; fairseq keeps the batches of a process's first epoch."""
    if self.cfg.dataset.update_ordered_indices_seed:
        kwargs["disable_iterator_cache"] = True
    return stock(self, epoch, *args, **kwargs)


@replaces(Trainer, "train_step", order=30, why="a process without a last batch does not count its others")
def count_all_batches(stock: Any, self: Any, samples: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Leave the empty batches of an epoch's last update out, except one where a process has no other.

    With --update-freq above 1, fairseq takes a process whose last batch is empty for one without batches. It loses the
    sizes of the other batches, though not their gradients, and the update becomes too large. Each process still makes
    the one backward pass that exchanges gradients.
    """
    return stock(self, [sample for sample in samples if sample] or samples[:1], *args, **kwargs)


@replaces(EpochBatchIterator, "_get_iterator_for_epoch", order=10, why="--curriculum never shuffles without a restart")
def shuffle_as_the_epoch_asks(
    stock: Any, self: Any, epoch: int, shuffle: bool, fix_batches_to_gpus: bool = False, offset: int = 0
) -> Any:
    """Return the batches of an epoch; fairseq keeps the order of the first epoch where it keeps its loader."""
    if self.reuse_dataloader and self.dataloader is not None:
        self.epoch_batch_sampler.shuffle = shuffle
        self.epoch_batch_sampler.fix_batches_to_gpus = fix_batches_to_gpus
    return stock(self, epoch, shuffle, fix_batches_to_gpus, offset)


@replaces(EpochBatchIterator, "state_dict", order=10, why="checkpoints record the unit of their position")
def say_what_is_counted(stock: Any, self: Any) -> dict[str, Any]:
    """Put the number of an epoch's batches, and of the processes that share them, beside the position."""
    return {**stock(self), BATCHES: len(self.frozen_batches), SHARDS: self.num_shards}


@replaces(
    EpochBatchIterator, "load_state_dict", order=10, why="other batches or processes lose the position (issue 781)"
)
def resume_within_an_epoch(stock: Any, self: Any, state_dict: dict[str, Any]) -> None:
    """Go to a position in the data. Raises `UserError` if the epoch ends before it."""
    stock_error = "Cannot resume training due to dataloader mismatch"
    position = position_here(self, state_dict)
    here = {**state_dict, POSITION: position}
    moved, whole = position != state_dict.get(POSITION, 0), len(self.frozen_batches) // self.num_shards
    if moved and self.skip_remainder_batch and position >= whole:
        # An incomplete rest is left out here, which is all that was left.
        here |= {"epoch": state_dict["epoch"] + 1, POSITION: 0}
    try:
        stock(self, here)
    except RuntimeError as error:
        if not str(error).startswith(stock_error):
            raise
        raise in_place_of(
            RuntimeError,
            f"extra_state.train_iterator.iterations_in_epoch of the checkpoint must be below {len(self)}, the batches "
            f"of an epoch here, but is {state_dict[POSITION]}; give --reset-dataloader",
        ) from None


def position_here(iterator: Any, state: dict[str, Any]) -> int:
    """Return the number of batches that each process has had of an epoch, rounded down: no sentence is left out.

    The batches of an epoch have the same order for any number of processes. Each process gets every n-th batch: after
    `k` batches on `n` processes `k n` are done. If the batches differ, the position is the same share of the epoch.

    Args:
        iterator: fairseq's `EpochBatchIterator`
        state: state of the checkpoint; fairseq's own checkpoints do not name the counted unit

    Raises:
        UserError: the order of the batches depends on the number of processes
    """
    position = state.get(POSITION, 0)
    batches, shards = len(iterator.frozen_batches), iterator.num_shards
    then, shared = state.get(BATCHES, batches), state.get(SHARDS, shards)
    if not position or (then, shared) == (batches, shards):
        return int(position)
    if iterator.grouped_shuffling and shared != shards:
        raise UserError(
            f"--grouped-shuffling: the processes must be the {shared} that had begun the epoch, since its order is "
            f"theirs, but are {shards}; give --reset-dataloader"
        )
    here = position * shared * batches // (max(then, 1) * shards)
    logger.info(
        f"resuming within the epoch, after {position} of {-(-then // max(shared, 1))} batches of each process: "
        f"here after {here} of {-(-batches // shards)}"
    )
    return int(here)


@replaces(GroupedIterator, "__init__", order=10, why="an epoch resumed within an update is cut short")
def group_what_is_left(
    stock: Any, self: Any, iterable: Any, chunk_size: int, skip_remainder_batch: bool = False
) -> None:
    """Count the groups from the start of the batches; fairseq counts the groups of a whole epoch."""
    done = getattr(iterable, "n", 0)
    if done % chunk_size == 0:
        stock(self, iterable, chunk_size, skip_remainder_batch)
        return
    stock(self, iterable, chunk_size)
    left = len(iterable) - done
    groups = -(-left // chunk_size)
    if skip_remainder_batch and left > chunk_size:
        # Less than a group would leave fairseq's loop over an epoch without an update.
        groups = left // chunk_size
        iterable.take(done + groups * chunk_size)
    self.total = self.n + groups


@sets("OptimizationConfig", order=60, why="the help of --skip-remainder-batch states the opposite of its effect")
def say_what_is_skipped() -> None:
    """Correct the help text."""
    option = OptimizationConfig.__dataclass_fields__["skip_remainder_batch"]
    help_text = "leave the last batch of each epoch out, full or not, and an incomplete last group of --update-freq"
    option.metadata = MappingProxyType({**option.metadata, "help": help_text})
