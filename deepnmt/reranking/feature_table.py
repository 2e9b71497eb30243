"""Features of lists of translations as arrays, and the choice by a weighted sum.

    y = argmax over the list of sum_m w_m h_m(x, y)

Shapes: N sentences; K translations of the longest list; M features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deepnmt.reranking.bleu_statistics import Array, Choice


@dataclass(frozen=True)
class FeatureTable:
    """Features of all translations.

    Attributes:
        names: of the features
        values: N x K x M; 0 where there is no translation
        present: where there is one, N x K; the first place of each sentence counts, even of an empty list
    """

    names: tuple[str, ...]
    values: Array
    present: NDArray[np.bool_]

    @classmethod
    def of(cls, lists: Sequence[Sequence[Mapping[str, float]]], names: Sequence[str]) -> FeatureTable:
        """Return the table of some features of the translations of each sentence."""
        longest = max(1, max(map(len, lists), default=1))
        values = np.zeros((len(lists), longest, len(names)))
        present = np.zeros((len(lists), longest), dtype=bool)
        present[:, 0] = True
        for row, found in enumerate(lists):
            present[row, : len(found)] = True
            for column, features in enumerate(found):
                values[row, column] = [features[name] for name in names]
        return cls(tuple(names), values, present)

    def scores(self, weights: Array) -> Array:
        """Return the weighted sums, N x K, -inf where there is no translation."""
        return np.where(self.present, self.values @ weights, -np.inf)

    def best(self, weights: Array) -> Choice:
        """Return the best place of each sentence, N; the first among equal ones."""
        best: Choice = self.scores(weights).argmax(axis=1)
        return best

    def spread(self) -> Array:
        """Return the standard deviation of each feature within the lists, M."""
        counts = self.present.sum(axis=1, keepdims=True)[..., None]
        masked = np.where(self.present[..., None], self.values, 0)
        deviation = np.where(self.present[..., None], self.values - masked.sum(axis=1, keepdims=True) / counts, 0)
        spread: Array = np.sqrt((deviation**2).sum(axis=(0, 1)) / self.present.sum())
        return spread
