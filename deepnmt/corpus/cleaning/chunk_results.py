"""The first step: each chunk's pairs against all filters that judge a pair by itself.

A chunk's file has, for each pair, the first such filter that it fails, and the data for decisions about the whole
corpus. For each column of a measure it has a histogram of all the chunk's pairs.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deepnmt.console import whole_file
from deepnmt.corpus.cleaning.clean_job import CleanJob
from deepnmt.corpus.cleaning.filter_recipe import Filter
from deepnmt.corpus.cleaning.filters import KINDS
from deepnmt.corpus.cleaning.learnt import Learnt, read_pairs
from deepnmt.corpus.cleaning.pair_chunk import Pairs
from deepnmt.corpus.cleaning.pair_classifier import names_of_features
from deepnmt.corpus.cleaning.pair_measures import columns_of, measured

KEPT = 255  # in the place of the number of a filter
SCORE_BINS = 40
Values = dict[str, NDArray[np.float32]]


@dataclass(frozen=True)
class ChunkResult:
    """The results of a chunk.

    Attributes:
        reasons: number of the first filter that each pair fails; KEPT
        keys: for each filter that looks for duplicates, a hash of each pair
        histograms: for each measured column, the number of pairs in each bin
        scores: scores that rank the pairs; None without a ranking
    """

    reasons: NDArray[np.uint8]
    keys: dict[int, NDArray[np.uint64]]
    histograms: dict[str, NDArray[np.int64]]
    scores: NDArray[np.float32] | None


def result_path(folder: Path, chunk: int) -> Path:
    """Return the file of a chunk's result."""
    return folder / f"chunk-{chunk:06d}.npz"


def scores_path(folder: Path, chunk: int) -> Path:
    """Return the file of the measures of a chunk's pairs."""
    return folder / f"scores-{chunk:06d}.tsv"


def read_result(folder: Path, chunk: int) -> ChunkResult:
    """Return the result of a chunk."""
    with np.load(result_path(folder, chunk)) as arrays:
        keys = {int(name[4:]): arrays[name] for name in arrays.files if name.startswith("key ")}
        histograms = {name[5:]: arrays[name] for name in arrays.files if name.startswith("hist ")}
        scores = arrays["scores"] if "scores" in arrays.files else None
        return ChunkResult(arrays["reasons"], keys, histograms, scores)


class ChunkMeasurer:
    """Measures chunks and writes their results."""

    def __init__(self, job: CleanJob, folder: Path, learnt: Learnt) -> None:
        self.job, self.folder, self.learnt = job, folder, learnt
        self.names = names_of(job)

    def __call__(self, chunk: int) -> int:
        """Write a chunk's result, and return the number of its pairs."""
        pairs = read_pairs(self.job, chunk)
        values = {name: measured(name, pairs, self.learnt.fitted) for name in self.names}
        result = self.result(chunk, pairs, values)
        if self.job.options.scores:
            self.write_scores(chunk, values, result)
        arrays: dict[str, NDArray[np.generic]] = {"reasons": result.reasons}
        arrays |= {f"key {number}": keys for number, keys in result.keys.items()}
        arrays |= {f"hist {name}": counts for name, counts in result.histograms.items()}
        if result.scores is not None:
            arrays["scores"] = result.scores
        with whole_file(result_path(self.folder, chunk)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        return len(pairs)

    def result(self, chunk: int, pairs: Pairs, values: Values) -> ChunkResult:
        """Return the results of a chunk."""
        reasons = np.full(len(pairs), KEPT, dtype=np.uint8)
        keys, histograms = {}, {}
        for number, each in enumerate(self.job.options.filters):
            if each.name == "dedup":
                keys[number] = hashes(pairs, each.value)
                continue
            found = values[each.name] if each.measures else self.job.column(each.file, each.column).read(chunk)[:, None]
            for name, column in zip(columns(each, self.job.options.languages), found.T):
                histograms[f"{number} {name}"] = histogram(edges_of(each), column)
            fails = ~((found >= each.low) & (found <= each.high)).all(axis=1)
            reasons[fails & (reasons == KEPT)] = number
        return ChunkResult(reasons, keys, histograms, self.scores(chunk, values))

    def scores(self, chunk: int, values: Values) -> NDArray[np.float32] | None:
        """Return the scores that rank a chunk's pairs."""
        if self.learnt.classifier is not None:
            return self.learnt.classifier(values)
        ranking = self.job.ranking
        return ranking.read(chunk) if ranking else None

    def write_scores(self, chunk: int, values: Values, result: ChunkResult) -> None:
        """Write the measures of a chunk's pairs, and perhaps their scores."""
        table = np.concatenate(
            [*values.values(), *([result.scores[:, None]] if result.scores is not None else [])], axis=1
        )
        with whole_file(scores_path(self.folder, chunk)) as temporary, temporary.open("w", encoding="utf-8") as file:
            file.writelines("\t".join(f"{value:.6g}" for value in row) + "\n" for row in table.tolist())


def names_of(job: CleanJob) -> tuple[str, ...]:
    """Return the measures that a job needs."""
    names = {each.name: None for each in job.options.filters if each.measures}
    if job.options.classifies or job.options.scores:
        names |= dict.fromkeys(names_of_features(job.options))
    return tuple(names)


def header(job: CleanJob) -> str:
    """Return the names of the columns that `ChunkMeasurer.write_scores` writes."""
    names = [column for name in names_of(job) for column in columns_of(name, job.options.languages)]
    return "\t".join([*names, *(["score"] if job.options.classifies or job.options.rank_by else [])]) + "\n"


def columns(each: Filter, languages: tuple[str, str]) -> tuple[str, ...]:
    """Return the names of a filter's columns."""
    return columns_of(each.name, languages) if each.measures else (each.value.rsplit(" ", 2)[0],)


def edges_of(each: Filter) -> NDArray[np.float64]:
    """Return the edges of the bins of a filter's histogram; a score's edges lie around its bound."""
    if each.measures:
        low, high, bins = KINDS[each.name].bins
        return np.linspace(low, high, bins + 1)
    bound = each.low if np.isfinite(each.low) else each.high
    width = max(abs(bound), 1.0)
    return np.linspace(bound - width, bound + width, SCORE_BINS + 1)


def histogram(edges: NDArray[np.float64], values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return how many values are in each bin; those outside count in the first and the last one."""
    inside = np.nan_to_num(np.clip(values.astype(np.float64), edges[0], edges[-1]), nan=edges[0])
    return np.histogram(inside, edges)[0].astype(np.int64)


def hashes(pairs: Pairs, kind: str) -> NDArray[np.uint64]:
    """Return a hash of 64 bits of each pair, or of one of its sides, whatever the process."""
    lines = pairs.source.lines if kind == "source" else pairs.target.lines
    if kind == "pair":
        lines = [f"{one}\n{other}" for one, other in zip(pairs.source.lines, pairs.target.lines)]
    digests = b"".join(hashlib.blake2b(line.encode(), digest_size=8).digest() for line in lines)
    return np.frombuffer(digests, dtype="<u8")
