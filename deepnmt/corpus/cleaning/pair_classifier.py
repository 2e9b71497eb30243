"""One score out of many measures: a logistic regression that has learnt to tell pairs of the corpus from broken ones.

    score = bias + sum_k weight_k (feature_k - mean_k) / scale_k

The score is the logarithm of the odds that a pair is a good one, where half of the pairs are. A classifier is a JSON
file of numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepnmt.corpus.cleaning.breaking import FAULTS, broken
from deepnmt.corpus.cleaning.filters import KINDS, measures
from deepnmt.corpus.cleaning.pair_chunk import Pairs
from deepnmt.corpus.cleaning.pair_measures import Fitted, columns_of, measured
from deepnmt.errors import UserError
from deepnmt.text.record import read_record, write_record

FORMAT = 1
MOST = 20.0  # values beyond it say nothing more
HELD_OUT = 5  # every fifth pair is not learnt from
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairClassifier:
    """A classifier of pairs; `scale` is each feature's standard deviation.

    `areas` are those under the ROC curve on pairs that were held out, by the kind of fault.
    """

    measures: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float
    areas: Mapping[str, float]

    def __call__(self, values: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return the score of each pair by the values of the measures."""
        scaled = (features(values, self.measures) - self.mean) / self.scale
        return np.asarray(scaled @ np.array(self.weights) + self.bias, dtype=np.float32)

    def check(self, path: Path, fitted: Fitted) -> None:
        """Raise `UserError` if it looks at a measure that there is not."""
        for kind in (KINDS[name] for name in self.measures):
            if not kind.is_given_to(fitted):
                option = kind.needs.replace("_", "-")
                raise UserError(f"{path}: must be given with --{option}, since it has learnt with it")

    def write(self, path: Path, languages: Sequence[str]) -> None:
        """Write the classifier."""
        record = {"format": FORMAT, "languages": list(languages), **asdict(self), "areas": dict(self.areas)}
        write_record(path, record)

    @classmethod
    def read(cls, path: Path, languages: Sequence[str]) -> "PairClassifier":
        """Return the classifier in a file. Raises `UserError` for other files or languages."""
        keys = dict.fromkeys(("languages", "measures", "mean", "scale", "weights"), list)
        record = read_record(path, format=int, bias=float, areas=dict, **keys)
        if record["format"] != FORMAT:
            raise UserError(f"{path}: 'format' must be {FORMAT}, but is {record['format']}")
        if record["languages"] != list(languages):
            was = " to ".join(map(str, record["languages"]))
            raise UserError(f"{path}: must be a classifier of {' to '.join(languages)}, but is of {was}")
        if unknown := [name for name in record["measures"] if name not in measures()]:
            raise UserError(f"{path}: 'measures' must be of {', '.join(measures())}, but has {unknown[0]}")
        size = sum(len(columns_of(name, ("", ""))) for name in record["measures"])
        numbers: dict[str, tuple[float, ...]] = {}
        for name in ("mean", "scale", "weights"):
            if len(record[name]) != size or not all(isinstance(number, (int, float)) for number in record[name]):
                raise UserError(f"{path}: '{name}' must be {size} numbers, but is not")
            numbers[name] = tuple(record[name])
        return cls(tuple(record["measures"]), **numbers, bias=record["bias"], areas=record["areas"])


def names_of_features(given: Any) -> tuple[str, ...]:
    """Return the measures that a classifier uses: all whose needs are met by options, or by `Fitted`."""
    return tuple(name for name in measures() if KINDS[name].is_given_to(given))


def measure_all(pairs: Pairs, fitted: Fitted, names: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    """Return the values of measures by their names."""
    return {name: measured(name, pairs, fitted) for name in names}


def features(values: Mapping[str, NDArray[np.float32]], names: Sequence[str]) -> Floats:
    """Return the features of pairs, a row each: their measures, those without bounds as logarithms."""
    columns = [np.log1p(values[name]) if KINDS[name].logarithmic else values[name] for name in names]
    return np.clip(np.concatenate(columns, axis=1).astype(np.float64), -MOST, MOST)


def train(pairs: Pairs, fitted: Fitted, seed: int) -> PairClassifier:
    """Return a classifier that has learnt from pairs, mostly good, and from broken copies of them.

    Raises `UserError` if there are too few pairs that can be broken.
    """
    languages = (pairs.source.language, pairs.target.language)
    lines = list(zip(pairs.source.lines, pairs.target.lines))
    kinds = [list(FAULTS)[row % len(FAULTS)] for row in range(len(lines))]
    faulty = [broken(kind, lines, row, seed, languages) for row, kind in enumerate(kinds)]
    # An unchanged pair is no example of a fault.
    rows = [row for row, line in enumerate(lines) if faulty[row] != line]
    if len(rows) < 100:
        raise UserError(f"--train-classifier must have 100 pairs to learn from, but has {len(rows)}")
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    names = names_of_features(fitted)
    good, bad = (
        features(measure_all(each, fitted, names), names)
        for each in (
            Pairs([text[row][0] for row in rows], [text[row][1] for row in rows], languages) for text in (lines, faulty)
        )
    )
    held = np.arange(len(rows)) // len(FAULTS) % HELD_OUT == 0
    learnt = np.concatenate([good[~held], bad[~held]])
    mean, scale = learnt.mean(axis=0), learnt.std(axis=0)
    scale[scale == 0] = 1
    model = LogisticRegression(max_iter=1000)
    model.fit((learnt - mean) / scale, np.repeat([1, 0], (~held).sum()))
    scores = [model.decision_function((each[held] - mean) / scale) for each in (good, bad)]
    areas = {"all": _area(roc_auc_score, scores[0], scores[1])}
    for kind in FAULTS:
        some = np.array(kinds)[rows][held] == kind
        if some.any():
            areas[kind] = _area(roc_auc_score, scores[0], scores[1][some])
    means, scales, weights = (tuple(values.tolist()) for values in (mean, scale, model.coef_[0]))
    return PairClassifier(names, means, scales, weights, float(model.intercept_[0]), areas)


def _area(area: Any, good: Floats, bad: Floats) -> float:
    return round(float(area(np.repeat([1, 0], [len(good), len(bad)]), np.concatenate([good, bad]))), 4)
