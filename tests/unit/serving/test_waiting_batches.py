"""Batches of waiting sentences, by a simulated clock."""

from __future__ import annotations

import random
from collections.abc import Hashable
from dataclasses import dataclass

import pytest

from deepnmt.serving import waiting_batches
from deepnmt.serving.waiting_batches import Batches


@dataclass(eq=False)
class Item:
    length: int
    arrived: float = 0.0
    kind: Hashable = ""


def lengths(found: list[Item]) -> list[int]:
    return [item.length for item in found]


def test_a_sentence_waits_for_others_of_its_bucket() -> None:
    waiting: Batches[Item] = Batches(2.0, (10, 20), 1_000)
    assert waiting.due(0.0) is None
    assert waiting.take(0.0) == []
    for item in (Item(3, 0.0), Item(15, 0.5), Item(10, 1.0), Item(99, 1.5), Item(11, 1.75)):
        waiting.add(item)
    assert waiting.due(1.75) == 0.25
    assert waiting.take(1.75) == []
    assert waiting.due(2.5) == 0.0
    # The oldest one first; those of its bucket need not have waited as long.
    assert lengths(waiting.take(2.5)) == [3, 10]
    assert lengths(waiting.take(2.5)) == [15, 11]
    assert waiting.take(2.5) == []
    assert waiting.due(2.5) == 1.0
    assert lengths(waiting.take(3.5)) == [99]
    assert waiting.due(3.5) is None


def test_a_full_bucket_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: Batches[Item] = Batches(2.0, (10,), 24)
    for length in (8, 5, 7):
        waiting.add(Item(length))
    assert waiting.due(0.0) == 2.0
    waiting.add(Item(1))
    # Padded to 8, four would have 32 subwords.
    assert waiting.due(0.0) == 0.0
    assert lengths(waiting.take(0.0)) == [8, 5, 7]
    assert waiting.due(0.0) == 2.0
    # Longer than a batch may be.
    waiting.add(Item(30))
    waiting.add(Item(25))
    assert [lengths(waiting.take(0.0)), lengths(waiting.take(0.0))] == [[30], []]
    assert sorted(length for _ in range(3) for length in lengths(waiting.take(2.0))) == [1, 25]
    monkeypatch.setattr(waiting_batches, "BATCH", 2)
    for _ in range(3):
        waiting.add(Item(1))
    assert [lengths(waiting.take(0.0)), waiting.due(0.0)] == [[1, 1], 2.0]


def test_kinds_are_apart_and_the_dropped_are_forgotten() -> None:
    waiting: Batches[Item] = Batches(0.0, (10,), 100)
    for number, kind in enumerate("abab"):
        waiting.add(Item(number, float(number), kind))
    waiting.drop(lambda item: item.length == 2)
    assert [lengths(waiting.take(9.0)), lengths(waiting.take(9.0)), waiting.due(9.0)] == [[0], [1, 3], None]


def test_no_sentence_waits_for_ever() -> None:
    """With more arrivals than batches can take, each sentence still leaves in the order of its bucket."""
    generator = random.Random(3)
    waiting: Batches[Item] = Batches(1.0, (5, 10), 40)
    left: list[Item] = []
    everything, clock = [], 0.0
    for _ in range(150):
        for _ in range(generator.randrange(9)):
            item = Item(generator.randrange(1, 30), clock)
            everything.append(item)
            waiting.add(item)
        clock += 0.25
        batch = waiting.take(clock)
        assert len(batch) < 2 or len(batch) * max(item.length for item in batch) <= 40
        if batch:
            # Of all buckets, the one whose oldest sentence has waited longest, unless only full ones may start.
            ready = [item for item in everything if item not in left and clock - item.arrived >= 1.0]
            assert not ready or batch[0].arrived <= min(item.arrived for item in ready)
        left += batch
    while waiting.due(clock) is not None:
        clock += 1.0
        left += waiting.take(clock)
    assert sorted(map(id, left)) == sorted(map(id, everything))
    for bucket in (range(6), range(6, 11), range(11, 30)):
        order = [item.arrived for item in left if item.length in bucket]
        assert order == sorted(order)


def test_a_lone_sentence_is_due_when_it_has_waited() -> None:
    waiting: Batches[Item] = Batches(0.5, (10,), 100)
    waiting.add(Item(1, 3.0))
    assert [waiting.due(3.0), waiting.due(3.25), waiting.due(9.0)] == [0.5, 0.25, 0.0]
    assert waiting.take(3.4) == []
    assert len(waiting.take(3.5)) == 1
