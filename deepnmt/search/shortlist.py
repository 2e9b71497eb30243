"""The shortlist of a sentence: the types that its translation may have, in place of the whole vocabulary.

    L(x)              special symbols, the N most frequent target types, and for each source type x_i the type of the
                      same name and the best ones by t(y|x_i) of a lexicon
    P(y_j | y_<j, x)  exp z_y / sum_{v in L(x)} exp z_v for y in L(x), otherwise 0

After Jean 2015 (arXiv 1412.2007) and L'Hostis 2016 (arXiv 1610.00072). Each sentence has its own list, and its
probabilities are normalised over this list alone: a translation does not depend on its batch.

A step has a column for each common type, by one product for the batch. Then come columns for the further types of each
sentence, by small products. A model folder keeps the lists in `shortlist.npz`, as `frequent` and `candidates`.

Shapes: N sentences of S source positions; V target types; U source types with K candidates each. D types are common; a
sentence has at most P further ones.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from deepnmt.console import whole_file
from deepnmt.errors import UserError
from deepnmt.text.dictionary import END, SPECIAL_SYMBOLS

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Further(NamedTuple):
    """The types that sentences have besides the common ones.

    Attributes:
        types: in the order of their numbers, and then the end symbol in unused places: N x P
        used: whether a place is used: N x P
    """

    types: Integers
    used: Flags


@dataclass(frozen=True)
class Shortlist:
    """The lists of a model.

    Attributes:
        frequent: types that are on each list besides the special symbols
        candidates: types for each source type, U x K; the end symbol stands in place of missing ones
        types: V
    """

    frequent: Integers
    candidates: Integers
    types: int

    @functools.cached_property
    def common(self) -> Integers:
        """The types that are on each list, D, the special symbols first, at their own numbers."""
        return np.union1d(np.arange(len(SPECIAL_SYMBOLS)), self.frequent)

    def further(self, sources: npt.NDArray[Any]) -> Further:
        """Return the further types of sources, N x S; padding adds nothing. There is a place at least."""
        listed = np.zeros((len(sources), self.types), dtype=bool)
        listed[np.arange(len(sources))[:, np.newaxis, np.newaxis], self.candidates[sources]] = True
        listed[:, self.common] = False
        counts = listed.sum(1)
        used = np.arange(max(1, counts.max())) < counts[:, np.newaxis]
        types = np.full(used.shape, END)
        types[used] = listed.nonzero()[1]
        return Further(types, used)

    def rest(self) -> Integers:
        """Return the types that are not common."""
        return np.setdiff1d(np.arange(self.types), self.common)

    def write(self, path: Path) -> None:
        """Write the lists to a file."""
        frequent, candidates = (array.astype(np.int32) for array in (self.frequent, self.candidates))
        with whole_file(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, frequent=frequent, candidates=candidates)

    @classmethod
    def read(cls, path: Path, sources: int, types: int) -> Shortlist:
        """Return the lists in a file, for dictionaries of U and V types.

        Raises:
            UserError: the file is damaged, or belongs to other dictionaries
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                frequent, candidates = file["frequent"], file["candidates"]
        except Exception as error:  # of many kinds, by numpy, zipfile and zlib
            raise UserError(f"{path}: must be a shortlist, but cannot be read; export the model again") from error
        whole = all(array.dtype == np.int32 for array in (frequent, candidates))
        if not whole or (frequent.ndim, candidates.ndim) != (1, 2) or len(candidates) != sources:
            raise UserError(f"{path}: must have whole numbers for {sources} source types, but has others")
        if any(array.size and not 0 <= array.min() <= array.max() < types for array in (frequent, candidates)):
            raise UserError(f"{path}: must have numbers below {types}, the target types, but has others")
        return cls(frequent.astype(np.int64), candidates.astype(np.int64), types)
