"""Sentences that wait for others of similar length, so that they become one batch.

A batch starts when its bucket of lengths has enough sentences, or when the oldest of them has waited long enough. The
oldest one always goes first, so that none waits for ever. The clock is an argument: nothing here sleeps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, Protocol, TypeVar

from deepnmt.translator.translator import BATCH


class Waits(Protocol):
    """A sentence that waits."""

    @property
    def kind(self) -> Hashable:
        """Sentences of different kinds are never in one batch."""

    @property
    def length(self) -> int:
        """Subwords."""

    @property
    def arrived(self) -> float:
        """Seconds of the clock."""


Item = TypeVar("Item", bound=Waits)


class Batches(Generic[Item]):
    """The waiting sentences, by kind and bucket.

    Args:
        wait: seconds that a sentence may wait for others
        buckets: greatest lengths of the buckets, ascending; another bucket has all longer sentences
        max_tokens: most subwords of a batch, padding included; a longer sentence is a batch of its own
    """

    def __init__(self, wait: float, buckets: Sequence[int], max_tokens: int) -> None:
        self.wait, self.buckets, self.max_tokens = wait, buckets, max_tokens
        self._groups: dict[tuple[Hashable, int], list[Item]] = {}

    def add(self, item: Item) -> None:
        """Let a sentence wait, in the bucket of its length."""
        self._groups.setdefault((item.kind, bisect_left(self.buckets, item.length)), []).append(item)

    def drop(self, unwanted: Callable[[Item], bool]) -> None:
        """Forget some of the sentences."""
        kept = {key: [item for item in group if not unwanted(item)] for key, group in self._groups.items()}
        self._groups = {key: group for key, group in kept.items() if group}

    def due(self, now: float) -> float | None:
        """Return the seconds until a batch may start, 0 if one may start now, None if no sentence waits."""
        return min((self._due(group, now) for group in self._groups.values()), default=None)

    def take(self, now: float) -> list[Item]:
        """Remove and return the batch whose oldest sentence has waited longest, or nothing if no batch may start."""
        ready = [key for key, group in self._groups.items() if self._due(group, now) <= 0]
        if not ready:
            return []
        key = min(ready, key=lambda key: self._groups[key][0].arrived)
        group = self._groups.pop(key)
        number = self._fitting(group)
        if group[number:]:
            self._groups[key] = group[number:]
        return group[:number]

    def _due(self, group: Sequence[Item], now: float) -> float:
        number = self._fitting(group)
        if number < len(group) or number == BATCH:
            return 0.0
        return max(0.0, group[0].arrived + self.wait - now)

    def _fitting(self, group: Sequence[Item]) -> int:
        """Return the number of sentences that fit into one batch, at least 1."""
        longest = 0
        for number, item in enumerate(group[:BATCH]):
            longest = max(longest, item.length)
            if number and (number + 1) * longest > self.max_tokens:
                return number
        return min(len(group), BATCH)
