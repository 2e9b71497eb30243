"""The second step: what becomes of each pair, by the filters that look at the whole corpus.

A pair meets the filters in their order. A filter that looks for duplicates counts only pairs that have passed all
before it, and keeps the first of those that are equal. Memory: a byte for each pair, and while duplicates are looked
for about 30 bytes for each pair that has come so far.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deepnmt.cleaning.chunk_results import KEPT, read_result
from deepnmt.cleaning.clean_job import Job
from deepnmt.errors import UserError


@dataclass(frozen=True)
class Decisions:
    """What becomes of each pair.

    Attributes:
        reasons: number of the filter that removes it; KEPT
        histograms: for each measured column, how many pairs are in each bin
    """

    reasons: NDArray[np.uint8]
    histograms: dict[str, NDArray[np.int64]]

    def removed(self, number: int) -> int:
        """Return how many pairs a filter has removed."""
        return int((self.reasons == number).sum())

    def reached(self, number: int) -> int:
        """Return how many pairs have come as far as a filter."""
        return int((self.reasons >= number).sum())

    @property
    def kept(self) -> int:
        """How many pairs are kept."""
        return self.removed(KEPT)


def decide(job: Job, folder: Path) -> Decisions:
    """Return what becomes of each pair.

    Raises:
        UserError: a filter removes all pairs that it meets
    """
    reasons = np.empty(job.pairs, dtype=np.uint8)
    histograms: dict[str, NDArray[np.int64]] = {}
    for chunk in range(job.chunks):
        result = read_result(folder, chunk)
        lines = job.files["source"].lines_of(chunk)
        reasons[lines.start : lines.stop] = result.reasons
        for name, counts in result.histograms.items():
            histograms[name] = histograms[name] + counts if name in histograms else counts
    for number, each in enumerate(job.options.filters):
        if each.name == "dedup":
            reached = reasons > number
            reasons[reached] = np.where(is_repeated(_keys(job, folder, number, reached)), number, reasons[reached])
    decisions = Decisions(reasons, histograms)
    for number, each in enumerate(job.options.filters):
        if decisions.removed(number) == decisions.reached(number):
            raise UserError(
                f"{each.label}: must leave pairs, but removes all {decisions.reached(number):,} that come as far"
            )
    return decisions


def _keys(job: Job, folder: Path, number: int, reached: NDArray[np.bool_]) -> NDArray[np.uint64]:
    keys, place = np.empty(int(reached.sum()), dtype=np.uint64), 0
    for chunk in range(job.chunks):
        lines = job.files["source"].lines_of(chunk)
        some = read_result(folder, chunk).keys[number][reached[lines.start : lines.stop]]
        keys[place : place + len(some)] = some
        place += len(some)
    return keys


def is_repeated(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return of which keys there is an equal one before."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeated = np.zeros(len(keys), dtype=bool)
    repeated[order[1:][ordered[1:] == ordered[:-1]]] = True
    return repeated
