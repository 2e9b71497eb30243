"""Counters of a server, in Prometheus' text format. None has a label that a client chooses."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from deepnmt.translator.translator import Translated

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Histogram:
    """Counts of observed values up to each bound, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, help_text: str) -> Iterator[str]:
        """Yield the lines of the text format."""
        yield from _header(name, "histogram", help_text)
        sums = list(accumulate(self.counts))
        for bound, count in zip([*map(str, self.bounds), "+Inf"], sums):
            yield f'{name}_bucket{{le="{bound}"}} {count}'
        yield f"{name}_sum {self.sum:.6f}"
        yield f"{name}_count {sums[-1]}"


class Metrics:
    """Counters of a server. Belongs to one thread.

    Attributes:
        waiting: sentences that wait or are being translated
        requests: by path and status
        cancelled: requests whose clients left before the answer
    """

    def __init__(self) -> None:
        self.waiting = self.cancelled = self.reloads = self.sentences = self.subwords = self.unknown = 0
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds, self.batches = Histogram(SECONDS), Histogram(SIZES)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self.requests[path, status] += 1
        self.seconds.observe(seconds)

    def count_batch(self, lines: Sequence[Translated]) -> None:
        """Count sentences with results; the ones without translations were one batch of a search."""
        if searched := sum(not line.translations for line in lines):
            self.batches.observe(searched)
        self.sentences += len(lines)
        self.subwords += sum(len(line.source) for line in lines)
        self.unknown += sum(len(line.unknown) for line in lines)

    def text(self) -> str:
        """Return all counters."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield from _header("deepnmt_requests_total", "counter", "Answered requests.")
        for (path, status), count in sorted(self.requests.items()):
            yield f'deepnmt_requests_total{{path="{path}",status="{status}"}} {count}'
        yield from self.seconds.lines("deepnmt_request_seconds", "Seconds from a request's head to its answer.")
        yield from self.batches.lines("deepnmt_batch_sentences", "Sentences of a batch.")
        for name, kind, value, help_text in (
            ("deepnmt_sentences_total", "counter", self.sentences, "Sentences with a result."),
            ("deepnmt_subwords_total", "counter", self.subwords, "Subwords of these sentences."),
            ("deepnmt_unknown_subwords_total", "counter", self.unknown, "Subwords that the models do not know."),
            ("deepnmt_cancelled_total", "counter", self.cancelled, "Requests whose clients left before the answer."),
            ("deepnmt_reloads_total", "counter", self.reloads, "Model folders that were loaded again."),
            ("deepnmt_waiting_sentences", "gauge", self.waiting, "Sentences that wait or are being translated."),
            ("process_cpu_seconds_total", "counter", f"{time.process_time():.3f}", "Processor time."),
            ("process_resident_memory_bytes", "gauge", _memory(), "Resident memory."),
        ):
            yield from _header(name, kind, help_text)
            yield f"{name} {value}"


def _header(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _memory() -> int:
    """Return the bytes of this process in memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
