"""All links of a piece of text: each source word of a pair with each of its target words, as arrays.

Pairs with m source and n target words form one group. The computation for each link is then a product of arrays of
shape k x n x m, k the pairs of the group. A prior that depends on positions is one n x m matrix for the group.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deepnmt.corpus.alignment.parallel_text import Numbers
from deepnmt.corpus.distinct import Keys, distinct

# Links in a piece: bounds the memory of a process, about 60 bytes each.
PIECE = 2_000_000
Pair = tuple[Numbers, Numbers]


class Group(NamedTuple):
    """The pairs of one shape.

    Attributes:
        pairs: their numbers in the piece, k
        source: numbers of the source's words, k x m
        target: numbers of the target's words, k x n
        links: places of the k x n x m links among the links of the piece
    """

    pairs: npt.NDArray[np.int64]
    source: Numbers
    target: Numbers
    links: slice

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the links."""
        return (*self.target.shape, self.source.shape[1])


@dataclass(frozen=True)
class Links:
    """A piece of text.

    Attributes:
        order: numbers of the pairs, by groups
        lengths: k, m, n of each group
        source: numbers of the source's words, by groups
        target: numbers of the target's words
        keys: the word pairs that occur, each once, in rising order; see `distinct`
        inverse: for each link, which of the keys it is of
    """

    order: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    source: Numbers
    target: Numbers
    keys: Keys
    inverse: Numbers

    @classmethod
    def of(cls, pairs: Sequence[Pair], stride: int) -> "Links":
        """Return the links of pairs with words on both sides; the key of words x and y is `x * stride + y`."""
        shapes = np.array([(len(source), len(target)) for source, target in pairs])
        order = np.lexsort((shapes[:, 1], shapes[:, 0]))
        shapes = shapes[order]
        starts = np.flatnonzero(np.r_[True, (shapes[1:] != shapes[:-1]).any(axis=1)])
        lengths = np.column_stack((np.diff(np.r_[starts, len(order)]), shapes[starts]))
        source = np.concatenate([pairs[number][0] for number in order])
        target = np.concatenate([pairs[number][1] for number in order])
        empty = cls(order, lengths, source, target, np.zeros(0, np.int64), np.zeros(0, np.int32))
        x, y = (np.empty(int(lengths.prod(axis=1).sum()), np.int32) for _ in range(2))
        for group in empty.groups():
            x[group.links].reshape(group.shape)[:] = group.source[:, None, :]
            y[group.links].reshape(group.shape)[:] = group.target[:, :, None]
        keys, inverse = distinct(x, y, stride)
        return cls(order, lengths, source, target, keys, inverse)

    def groups(self) -> Iterator[Group]:
        """Yield the groups."""
        pair = word = other = link = 0
        for k, m, n in self.lengths.tolist():
            yield Group(
                self.order[pair : pair + k],
                self.source[word : word + k * m].reshape(k, m),
                self.target[other : other + k * n].reshape(k, n),
                slice(link, link + k * n * m),
            )
            pair, word, other, link = pair + k, word + k * m, other + k * n, link + k * n * m


def pieces(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield pairs in lists of about `PIECE` links, but at least one pair."""
    piece: list[Pair] = []
    links = 0
    for pair in pairs:
        size = len(pair[0]) * len(pair[1])
        if piece and links + size > PIECE:
            yield piece
            piece, links = [], 0
        piece.append(pair)
        links += size
    if piece:
        yield piece
