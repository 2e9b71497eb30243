"""The second step: the decision about each pair, by the filters that look at the whole corpus.

A pair passes the filters in their order. A filter that looks for duplicates counts only pairs that have passed all
filters before it, and keeps the first of equal pairs. The best pairs by a score are chosen last. Memory: a byte per
pair. The search for duplicates, or for the best, needs about 30 bytes for each pair that has come so far.

Quality and coverage conflict: the best pairs are often short and common. A pair that the score leaves out stays if it
has a word that is kept fewer than C times so far. The best of these pairs come first.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Optional, TypeVar

import numpy as np
from numpy.typing import NDArray

from deepnmt.console import progress
from deepnmt.corpus.cleaning.chunk_results import KEPT, SCORE_BINS, ChunkResult, edges_of, histogram, read_result
from deepnmt.corpus.cleaning.clean_job import Best, CleanJob
from deepnmt.corpus.cleaning.filter_recipe import Filter
from deepnmt.corpus.cleaning.learnt import read_pairs
from deepnmt.corpus.cleaning.pair_chunk import Pairs
from deepnmt.errors import UserError

Mask = NDArray[np.bool_]
Word = tuple[int, str]
Number = TypeVar("Number", np.uint64, np.float32)
RANGE = (0.5, 99.5)  # percentiles of the scores that a histogram shows


@dataclass(frozen=True)
class Histogram:
    """How many pairs are in each bin, those beyond the edges in the first and the last one."""

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]


@dataclass
class Decisions:
    """The decision about each pair.

    Attributes:
        filters: the job's filters, and perhaps a last one for the best by a score
        reasons: number of the filter that removes it; KEPT
        histograms: histograms by number of the filter and name of the column
        unseen: number of pairs that are kept for their words alone
    """

    filters: list[Filter]
    reasons: NDArray[np.uint8]
    histograms: dict[str, Histogram]
    unseen: int = 0

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


def decide(job: CleanJob, folder: Path) -> Decisions:
    """Return what becomes of each pair. Raises `UserError` if a filter removes all pairs that it meets."""
    filters = list(job.options.filters)
    decisions = Decisions(filters, np.empty(job.pairs, dtype=np.uint8), {})
    for chunk in range(job.chunks):
        result = read_result(folder, chunk)
        lines = job.files["source"].lines_of(chunk)
        decisions.reasons[lines.start : lines.stop] = result.reasons
        for name, counts in result.histograms.items():
            edges = edges_of(filters[int(name.split(" ")[0])])
            before = decisions.histograms.get(name, Histogram(edges, np.zeros_like(counts)))
            decisions.histograms[name] = Histogram(edges, before.counts + counts)
    for number, each in enumerate(filters):
        if each.name == "dedup":
            reached = decisions.reasons > number
            keys = _collected(job, folder, reached, partial(_keys, number))
            decisions.reasons[reached] = np.where(is_repeated(keys), number, decisions.reasons[reached])
    for number, each in enumerate(filters):
        if decisions.removed(number) == decisions.reached(number):
            raise UserError(
                f"{each.label}: must leave pairs, but removes all {decisions.reached(number):,} that come as far"
            )
    if job.options.keep_best:
        keep_best(job, folder, decisions)
    return decisions


def keep_best(job: CleanJob, folder: Path, decisions: Decisions) -> None:
    """Remove all but the best pairs and the pairs with rare words."""
    passed, number = decisions.reasons == KEPT, len(decisions.filters)
    scores = _collected(job, folder, passed, lambda result: result.scores)
    order, best = ranked(scores), Best(job.options.keep_best).of(len(scores))
    left_out, places = order[best:], np.flatnonzero(passed)
    decisions.reasons[places[left_out]] = number
    decisions.filters.append(Filter("keep-best", job.options.keep_best, low=float(scores[order[best - 1]])))
    finite = scores[np.isfinite(scores)]
    low, high = (float(np.percentile(finite, percent)) if len(finite) else 0.0 for percent in RANGE)
    edges = np.linspace(low, high, SCORE_BINS + 1)
    decisions.histograms[f"{number} score"] = Histogram(edges, histogram(edges, scores))
    least = job.options.keep_unseen
    if least and len(left_out):
        bar = progress(2 * job.pairs, "counting words", " pairs")

        def chunks() -> Iterator[tuple[Pairs, Mask, Mask]]:
            for chunk in range(job.chunks):
                lines = job.files["source"].lines_of(chunk)
                reasons = decisions.reasons[lines.start : lines.stop]
                yield read_pairs(job, chunk), reasons == KEPT, reasons == number
                bar.update(len(lines))

        with bar:
            counts, rare = seen_too_rarely(chunks, least)
        # The words are in the order of the corpus, and the scores' order begins with the best.
        in_order = np.sort(left_out)
        back = needed(counts, rare, np.searchsorted(in_order, left_out).tolist(), least)
        decisions.reasons[places[in_order[back]]] = KEPT
        decisions.unseen = len(back)


def _collected(
    job: CleanJob, folder: Path, wanted: Mask, of: Callable[[ChunkResult], Optional[NDArray[Number]]]
) -> NDArray[Number]:
    """Return the results of chunks for the wanted pairs."""
    found = []
    for chunk in range(job.chunks):
        lines = job.files["source"].lines_of(chunk)
        values = of(read_result(folder, chunk))
        assert values is not None
        found.append(values[wanted[lines.start : lines.stop]])
    return np.concatenate(found)


def _keys(number: int, result: ChunkResult) -> NDArray[np.uint64]:
    return result.keys[number]


def is_repeated(keys: NDArray[np.uint64]) -> Mask:
    """Return the mask of the keys that have an equal key before them."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    repeated = np.zeros(len(keys), dtype=bool)
    repeated[order[1:][ordered[1:] == ordered[:-1]]] = True
    return repeated


def ranked(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the places of scores, the best first; of equal ones the first is better."""
    return np.argsort(-scores, kind="stable")


def words_of(pairs: Pairs) -> Iterator[list[Word]]:
    """Yield the words of each pair, each with its side, without case and punctuation."""
    for source, target in zip(pairs.source.types, pairs.target.types):
        yield [*((0, word) for word in source), *((1, word) for word in target)]


def seen_too_rarely(
    chunks: Callable[[], Iterator[tuple[Pairs, Mask, Mask]]], least: int
) -> tuple[Counter[Word], list[list[Word]]]:
    """Return how often words are kept, and of each pair left out the words that are kept less than `least` times.

    Memory grows with the different words of the pairs, and with the rare words of those left out. `chunks` yields
    pairs, and which of them are kept, and left out; it is called twice.
    """
    counts: Counter[Word] = Counter()
    for pairs, kept, _ in chunks():
        for words, there in zip(words_of(pairs), kept):
            if there:
                counts.update(words)
    rare: list[list[Word]] = []
    for pairs, _, left_out in chunks():
        for words, there in zip(words_of(pairs), left_out):
            if there:
                rare.append([word for word in words if counts[word] < least])
    return counts, rare


def needed(counts: Counter[Word], rare: Sequence[Sequence[Word]], order: Sequence[int], least: int) -> list[int]:
    """Return which of the pairs left out are kept after all, so that words are kept `least` times.

    `counts`, how often words are kept, is changed. `order` has the best pairs left out first, `rare` their rare words.
    """
    back = []
    for place in order:
        if any(counts[word] < least for word in rare[place]):
            counts.update(rare[place])
            back.append(place)
    return back
