"""Vectors of types from their neighbours: positive pointwise mutual information, and a truncated SVD.

Of the pairs (i, j) of tokens that stand at most W apart in a sentence, c_ij are (i, j). With sums c_i and c,

    P_ij = max(0, log (c_ij c / (c_i c_j)))                                       (Levy 2015, TACL, Q15-1016)

    P ~ U S U'^T with the d largest singular values S, and the vectors are U S^(1/2), times one factor     (67)

The factor gives their numbers the mean square 1 / d, as in fairseq's initial embeddings.

Shapes: V types, d channels.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import svds

from deepnmt.errors import UserError
from deepnmt.text.dictionary import SPECIAL_SYMBOLS, read_types
from deepnmt.text.translated_folder import lines_of

Floats = npt.NDArray[np.float64]
# Lines that are counted together.
BLOCK = 50_000


def neighbours(lines: Iterable[str], types: Sequence[str], window: int) -> sparse.csr_matrix:
    """Return the counts c_ij, V x V, of the tokens of lines; special symbols and other tokens are not counted."""
    number = {name: index for index, name in enumerate(types) if name not in SPECIAL_SYMBOLS}
    total = sparse.csr_matrix((len(types), len(types)))
    lines = iter(lines)
    while block := list(islice(lines, BLOCK)):
        # What follows a line is no neighbour.
        gap = [-1] * window
        tokens = np.array([each for line in block for each in (*(number.get(w, -1) for w in line.split()), *gap)])
        for distance in range(1, window + 1):
            left, right = tokens[:-distance], tokens[distance:]
            both = (left >= 0) & (right >= 0)
            ones = np.ones(int(both.sum()))
            total += sparse.coo_matrix((ones, (left[both], right[both])), shape=total.shape).tocsr()
    return total + total.T


def positive_information(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return P, V x V."""
    found = counts.tocoo()
    sums = np.asarray(counts.sum(axis=1)).ravel()
    values = np.log(found.data * sums.sum() / (sums[found.row] * sums[found.col]))
    result = sparse.csr_matrix((values.clip(min=0), (found.row, found.col)), shape=counts.shape)
    result.eliminate_zeros()
    return result


def vectors(information: sparse.csr_matrix, width: int) -> Floats:
    """Return the vectors, V x d; the largest number of each channel is positive, so that a text has one result."""
    left, values, _ = svds(information, k=width, v0=np.ones(information.shape[0]))
    order = np.argsort(-values)
    result = left[:, order] * np.sqrt(values[order])
    result *= np.sign(result[np.abs(result).argmax(axis=0), np.arange(width)])
    scaled: Floats = result * (width**-0.5 / np.sqrt((result**2).mean()))
    return scaled


def text_of(folders: Sequence[Path], subsets: Sequence[str], language: str) -> Iterator[str]:
    """Yield the subwords of a language in data folders, a line each.

    Raises:
        UserError: a folder has no such text, or another dictionary than the first
    """
    first, found = folders[0] / f"dict.{language}.txt", []
    for folder in folders:
        paths = [folder / "text" / f"{subset}.bpe.{language}" for subset in subsets]
        present = [path for path in paths if path.is_file()]
        if not present:
            raise UserError(f"{' and '.join(map(str, paths))}: no such file")
        if read_types(folder / first.name) != read_types(first):
            raise UserError(f"{folder / first.name}: must have the types of {first}, but has others")
        found += present
    for path in found:
        yield from lines_of(path)


def learnt(
    folders: Sequence[Path], subsets: Sequence[str], language: str, width: int, window: int
) -> dict[str, list[float]]:
    """Return the vectors of all types that have neighbours, by their names.

    Args:
        folders: data folders; the first one has the dictionary
        subsets: of the text
        language: of the text
        width: d
        window: W

    Raises:
        UserError: there is no text, or too few types for the width
    """
    types = read_types(folders[0] / f"dict.{language}.txt")
    counts = neighbours(text_of(folders, subsets, language), types, window)
    seen = np.flatnonzero(np.asarray(counts.sum(axis=1)).ravel())
    if width >= len(seen):
        raise UserError(f"--width must be below the number of types with neighbours, {len(seen)}, but is {width}")
    found = vectors(positive_information(counts[seen][:, seen]), width)
    return {types[number]: row.tolist() for number, row in zip(seen, found)}
