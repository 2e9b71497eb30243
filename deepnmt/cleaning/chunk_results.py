"""The first step: each chunk's pairs against all filters that look at a pair by itself.

A chunk's file has, for each pair, the first such filter that it does not pass, and what the filters that look at the
whole corpus need; and for each column of a measure a histogram of all the chunk's pairs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import numpy as np
from numpy.typing import NDArray

from deepnmt.cleaning.character_model import CharacterModel
from deepnmt.cleaning.clean_job import Job
from deepnmt.cleaning.corpus_index import sample_of
from deepnmt.cleaning.filter_recipe import Filter
from deepnmt.cleaning.pair_chunk import Pairs
from deepnmt.cleaning.pair_measures import MEASURES, NOTHING, Fitted, Spread, columns_of, measured
from deepnmt.console import whole_file

KEPT = 255  # in the place of the number of a filter
FITTED_ON = 200_000  # pairs that measures learn from
LEARNING = ("ratio-sigma", "characters", "language")
SCORE_BINS = 40
TABLES = ("singles", "pairs", "triples")  # of a character model


@dataclass(frozen=True)
class ChunkResult:
    """What is found out about a chunk.

    Attributes:
        reasons: number of the first filter that each pair does not pass; KEPT
        keys: for each filter that looks for duplicates, a hash of each pair
        histograms: for each measured column, how many pairs are in each bin
    """

    reasons: NDArray[np.uint8]
    keys: dict[int, NDArray[np.uint64]]
    histograms: dict[str, NDArray[np.int64]]


def result_path(folder: Path, chunk: int) -> Path:
    """Return the file of a chunk's result."""
    return folder / f"chunk-{chunk:06d}.npz"


def read_result(folder: Path, chunk: int) -> ChunkResult:
    """Return the result of a chunk."""
    with np.load(result_path(folder, chunk)) as arrays:
        keys = {int(name[4:]): arrays[name] for name in arrays.files if name.startswith("key ")}
        histograms = {name[5:]: arrays[name] for name in arrays.files if name.startswith("hist ")}
        return ChunkResult(arrays["reasons"], keys, histograms)


def read_pairs(job: Job, chunk: int) -> Pairs:
    """Return the pairs of a chunk. Raises `UserError` with the number of a line that is not UTF-8."""
    source, target = (job.files[side].read_text(chunk) for side in ("source", "target"))
    return Pairs(source, target, job.options.languages)


def needs_fit(job: Job) -> bool:
    """Return whether a filter learns from the corpus."""
    return any(each.name in LEARNING for each in job.options.filters)


def fit(job: Job) -> Fitted:
    """Return what measures learn from a sample of the corpus, evenly spaced chunks."""
    chunks = [read_pairs(job, chunk) for chunk in sample_of(job.chunks, job.options.chunk, FITTED_ON)]
    lines = [[line for pairs in chunks for line in pairs.sides[side].lines] for side in (0, 1)]
    return Fitted.of(Pairs(lines[0], lines[1], job.options.languages))


def write_fitted(path: Path, fitted: Fitted) -> None:
    """Write what measures have learnt."""
    numbers = [fitted.ratio.middle, fitted.ratio.sigma]
    arrays: dict[str, NDArray[np.generic]] = {}
    for side, model in enumerate(fitted.characters):
        numbers += [model.middle, model.sigma]
        arrays |= {f"{name} {side}": getattr(model, name) for name in TABLES}
    with whole_file(path) as temporary, temporary.open("wb") as file:
        np.savez(file, numbers=np.array(numbers), **arrays)  # type: ignore[arg-type]


def read_fitted(path: Path) -> Fitted:
    """Return what `write_fitted` has written."""
    with np.load(path) as arrays:
        numbers = arrays["numbers"].tolist()
        models = [
            CharacterModel(*(arrays[f"{name} {side}"] for name in TABLES), *numbers[2 + 2 * side : 4 + 2 * side])
            for side in (0, 1)
        ]
    return Fitted(Spread(*numbers[:2]), (models[0], models[1]))


class ChunkMeasurer:
    """Measures chunks and writes their results.

    Args:
        job: that was asked for
        folder: for the results
        fitted: file of what measures have learnt; None where they learn nothing
    """

    def __init__(self, job: Job, folder: Path, fitted: Optional[Path]) -> None:
        self.job, self.folder = job, folder
        self.fitted = read_fitted(fitted) if fitted else NOTHING

    def __call__(self, chunk: int) -> int:
        """Write a chunk's result, and return the number of its pairs."""
        pairs = read_pairs(self.job, chunk)
        result = self.result(chunk, pairs)
        arrays: dict[str, NDArray[np.generic]] = {"reasons": result.reasons}
        arrays |= {f"key {number}": keys for number, keys in result.keys.items()}
        arrays |= {f"hist {name}": counts for name, counts in result.histograms.items()}
        with whole_file(result_path(self.folder, chunk)) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        return len(pairs)

    def result(self, chunk: int, pairs: Pairs) -> ChunkResult:
        """Return what is found out about a chunk."""
        reasons = np.full(len(pairs), KEPT, dtype=np.uint8)
        keys, histograms = {}, {}
        for number, each in enumerate(self.job.options.filters):
            if each.name == "dedup":
                keys[number] = hashes(pairs, each.value)
                continue
            values = self.values(each, chunk, pairs)
            for name, column in zip(columns(each, self.job.options.languages), values.T):
                histograms[f"{number} {name}"] = histogram(each, column)
            fails = ~((values >= each.low) & (values <= each.high)).all(axis=1)
            reasons[fails & (reasons == KEPT)] = number
        return ChunkResult(reasons, keys, histograms)

    def values(self, each: Filter, chunk: int, pairs: Pairs) -> NDArray[np.float32]:
        """Return the values of a filter's measure or file: pairs x columns."""
        if each.name == "score":
            return self.job.column(each.file, each.column).read(chunk)[:, None]
        return measured(each.name, pairs, self.fitted)


def columns(each: Filter, languages: tuple[str, str]) -> tuple[str, ...]:
    """Return the names of a filter's columns."""
    return (each.value.rsplit(" ", 2)[0],) if each.name == "score" else columns_of(each.name, languages)


def edges_of(each: Filter) -> NDArray[np.float64]:
    """Return the edges of the bins of a filter's histogram; those of a score lie around its bound."""
    if each.name != "score":
        return np.array(MEASURES[each.name].edges)
    bound = each.low if np.isfinite(each.low) else each.high
    width = max(abs(bound), 1.0)
    return np.linspace(bound - width, bound + width, SCORE_BINS + 1)


def histogram(each: Filter, values: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return how many values are in each bin; those outside count in the first and the last one."""
    edges = edges_of(each)
    inside = np.nan_to_num(np.clip(values.astype(np.float64), edges[0], edges[-1]), nan=edges[0])
    return np.histogram(inside, edges)[0].astype(np.int64)


def hashes(pairs: Pairs, kind: str) -> NDArray[np.uint64]:
    """Return a hash of 64 bits of each pair, or of one of its sides, whatever the process."""
    lines = pairs.source.lines if kind == "source" else pairs.target.lines
    if kind == "pair":
        lines = [f"{one}\n{other}" for one, other in zip(pairs.source.lines, pairs.target.lines)]
    digests = b"".join(hashlib.blake2b(line.encode(), digest_size=8).digest() for line in lines)
    return np.frombuffer(digests, dtype="<u8")
