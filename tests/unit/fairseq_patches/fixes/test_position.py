"""Where a training resumes within an epoch: with another number of processes, and with other batches."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from support.checkpoints import checkpoint

import deepnmt
from deepnmt.checkpoints.contents import check_contents
from deepnmt.errors import UserError

deepnmt.register()
SENTENCES = 96


class Numbers(FairseqDataset):  # type: ignore[misc]
    """A sentence is its number."""

    def __getitem__(self, number: int) -> int:
        return number

    def __len__(self) -> int:
        return SENTENCES

    def collater(self, samples: list[int]) -> list[int]:
        return samples


def iterator(size: int, shards: int, shard: int, **more: bool) -> Any:
    """Batches of so many sentences, for one process."""
    batches = [list(range(first, first + size)) for first in range(0, SENTENCES, size)]
    data = Numbers()
    return EpochBatchIterator(data, data.collater, batches, num_shards=shards, shard_id=shard, seed=3, **more)


def begun(size: int, shards: int, batches: int, epoch: int = 2) -> tuple[dict[str, Any], set[int]]:
    """What a checkpoint holds after so many batches of each process, and the sentences done in that epoch."""
    done: set[int] = set()
    state: dict[str, Any] = {}
    for shard in range(shards):
        source = iterator(size, shards, shard)
        source.load_state_dict({"epoch": epoch, "iterations_in_epoch": 0})
        batch = iter(source.next_epoch_itr(shuffle=True))
        for _ in range(batches):
            done.update(next(batch))
        state = source.state_dict() if shard == 0 else state
    return state, done


def rest(state: dict[str, Any], size: int, shards: int) -> set[int]:
    """The sentences that come in what is left of the epoch, of all processes."""
    left: set[int] = set()
    for shard in range(shards):
        source = iterator(size, shards, shard)
        source.load_state_dict(state)
        epoch = source.next_epoch_itr(shuffle=True)
        assert source.epoch == state["epoch"]
        left.update(sentence for batch in epoch for sentence in batch)
    return left


@pytest.mark.parametrize(("then", "now"), [(1, 1), (4, 4), (4, 2), (2, 4), (1, 4), (4, 1), (3, 4), (4, 3), (8, 1)])
def test_another_number_of_processes_has_the_rest_of_the_epoch(then: int, now: int) -> None:
    state, done = begun(4, then, 2)
    left = rest(state, 4, now)
    assert left | done == set(range(SENTENCES))
    # Twice at the most what does not come out even.
    assert len(left & done) == 4 * (2 * then % now)


def test_other_batches_begin_at_the_same_share(caplog: pytest.LogCaptureFixture) -> None:
    state, done = begun(4, 2, 6)
    assert len(done) == SENTENCES / 2
    with caplog.at_level(logging.INFO):
        assert len(rest(state, 3, 4)) == SENTENCES / 2
    assert caplog.messages[0] == ("resuming within the epoch, after 6 of 12 batches of each process: here after 4 of 8")


def test_a_checkpoint_of_fairseqs_own_counts_as_here() -> None:
    state, done = begun(4, 2, 5)
    old = {key: value for key, value in state.items() if key not in ("batches", "shards")}
    assert rest(old, 4, 2) == set(range(SENTENCES)) - done
    source = iterator(8, 4, 0)
    assert math.ceil(SENTENCES / 8 / 4) == 3
    with pytest.raises(UserError, match=r"^extra_state\.train_iterator\.iterations_in_epoch .* below 3, .* but is 5;"):
        source.load_state_dict(old)


@pytest.mark.parametrize("key", ["batches", "shards"])
@pytest.mark.parametrize("faulty", [-1, "4", None])
def test_faulty_numbers_are_refused(key: str, faulty: Any) -> None:
    position = {"epoch": 1, "iterations_in_epoch": 1, "batches": 24, "shards": 2}
    right = checkpoint()
    extra = right["extra_state"]
    check_contents({**right, "extra_state": {**extra, "train_iterator": position}}, "a.pt")
    with pytest.raises(
        UserError, match=rf"^a\.pt: extra_state\.train_iterator\.{key} must be a number of at least 0, but"
    ):
        check_contents({**right, "extra_state": {**extra, "train_iterator": {**position, key: faulty}}}, "a.pt")


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("group", [1, 2, 4, 5, 7])
@pytest.mark.parametrize("done", [0, 1, 3, 5, 8, 11])
def test_an_epoch_that_is_resumed_within_an_update_is_trained_to_its_end(group: int, done: int, skip: bool) -> None:
    state, _ = begun(8, 1, done)
    source = iterator(8, 1, 0)
    source.load_state_dict(state)
    batches = source.next_epoch_itr(shuffle=True)
    groups = list(GroupedIterator(batches, group, skip_remainder_batch=skip))
    left = SENTENCES // 8 - done
    # At least one update, or fairseq's loop fails; whole ones, where others are left out.
    trained = left // group * group if skip and left > group else left
    assert sum(map(len, groups)) == (trained if done % group else left // group * group if skip else left)
    assert all(len(each) == group for each in groups[:-1])
    # The next one begins, and not this one again.
    assert source.end_of_epoch() or (skip and not groups)
    assert source.next_epoch_idx == state["epoch"] + bool(groups)


def test_what_does_not_come_out_even_is_left_out_as_asked() -> None:
    batches = {"size": 8, "shards": 4}  # twelve batches, of which each process has three
    for position, expected in ((8, (2, 2)), (11, (2, 2)), (5, (2, 1))):
        source = iterator(**batches, shard=0, skip_remainder_batch=True)
        source.load_state_dict({"epoch": 2, "iterations_in_epoch": position, "batches": 12, "shards": 1, "version": 2})
        assert (source.epoch, source.iterations_in_epoch) == expected
    # Ten: two each, and the last two left out; eight are all.
    data = Numbers()
    ten = EpochBatchIterator(
        data, data.collater, [[each] for each in range(10)], num_shards=4, seed=3, skip_remainder_batch=True
    )
    ten.load_state_dict({"epoch": 2, "iterations_in_epoch": 8, "batches": 10, "shards": 1, "version": 2})
    assert (ten.epoch, ten.iterations_in_epoch) == (3, 0)


def test_an_order_of_the_processes_own_is_not_resumed_by_others() -> None:
    state, _ = begun(4, 2, 5)
    source = iterator(4, 4, 0, grouped_shuffling=True)
    with pytest.raises(UserError, match=r"^--grouped-shuffling: the processes must be the 2 that .*, but are 4; give"):
        source.load_state_dict(state)
    # As many: whatever order they have.
    iterator(4, 2, 0, grouped_shuffling=True).load_state_dict(state)
