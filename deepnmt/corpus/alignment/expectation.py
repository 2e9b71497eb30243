"""The E step: how many links of each word pair a piece of text is expected to have, under both directions' models.

    P(y_j, a_j = i) = P(a_j = i) t(y_j|x_i)          forward; reverse with the sides exchanged

The prior says how probable it is, by their positions alone, that two words of a pair are linked. For target position j
of n, source position i of m, both from 1:

    IBM model 1   P(a_j = i) = P(a_j = null) = 1 / (m + 1)                  (Brown 1993, J93-2003)
    diagonal      P(a_j = i) = (1 - p0) exp(-4 |i/m - j/n|) / Z_j, P(a_j = null) = p0 = 0.08     (Dyer 2013, N13-1073)

The reverse direction links a source word to a target word, with i and j exchanged.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from deepnmt.corpus.alignment.links import Links
from deepnmt.corpus.alignment.parallel_text import Numbers
from deepnmt.corpus.alignment.word_table import Counts, Probabilities, Tables

TENSION = 4.0
NULL = 0.08
MODEL_1, DIAGONAL = KINDS = ("model 1", "diagonal")
Matrix = npt.NDArray[np.float32]


class Prior(NamedTuple):
    """The prior of pairs with m source and n target words: probabilities of links, n x m, and of words without one."""

    forward: Matrix
    reverse: Matrix
    forward_null: float
    reverse_null: float


# The longest pairs' have more than a megabyte, and each worker has its own.
@lru_cache(maxsize=256)
def prior(kind: str, m: int, n: int) -> Prior:
    """Return the prior of pairs with m source and n target words."""
    if kind == MODEL_1:
        return Prior(
            np.full((n, m), 1 / (m + 1), np.float32), np.full((n, m), 1 / (n + 1), np.float32), 1 / (m + 1), 1 / (n + 1)
        )
    i, j = np.arange(1, m + 1) / m, np.arange(1, n + 1)[:, None] / n
    weight = np.exp(-TENSION * np.abs(i - j))
    return Prior(
        ((1 - NULL) * weight / weight.sum(axis=1, keepdims=True)).astype(np.float32),
        ((1 - NULL) * weight / weight.sum(axis=0, keepdims=True)).astype(np.float32),
        NULL,
        NULL,
    )


class Expected(NamedTuple):
    """Expected counts of a piece of text.

    Attributes:
        forward: links of each of the piece's keys
        reverse: the same in the reverse direction
        forward_null: target words without a link, by word
        reverse_null: source words without a link
        likelihoods: log P of all target words, and of all source words, in nats
    """

    forward: Counts
    reverse: Counts
    forward_null: Counts
    reverse_null: Counts
    likelihoods: Counts


def expected(links: Links, forward: Probabilities, reverse: Probabilities, tables: Tables, kind: str) -> Expected:
    """Return the expected numbers of links, given t(y|x) (`forward`) and t(x|y) of each of the piece's keys.

    `tables` serve the words that are linked to none; `kind` is the prior's.
    """
    p, q = forward[links.inverse], reverse[links.inverse]
    null_p: list[Counts] = []
    null_q: list[Counts] = []
    likelihoods = np.zeros(2)
    for group in links.groups():
        _, n, m = group.shape
        before = prior(kind, m, n)
        for link, weight, axis, null, missed, side in (
            (p, before.forward, 2, before.forward_null * tables.forward_null[group.target], null_p, 0),
            (q, before.reverse, 1, before.reverse_null * tables.reverse_null[group.source], null_q, 1),
        ):
            joint = link[group.links].reshape(group.shape)  # k x n x m, a view
            joint *= weight
            total = joint.sum(axis=axis, dtype=np.float64) + null
            likelihoods[side] += np.log(total).sum()
            joint /= np.expand_dims(total, axis)
            missed.append((null / total).ravel())
    size = len(links.keys)
    return Expected(
        _sums(links.inverse, p, size),
        _sums(links.inverse, q, size),
        _sums(links.target, np.concatenate(null_p), len(tables.forward_null)),
        _sums(links.source, np.concatenate(null_q), len(tables.reverse_null)),
        likelihoods,
    )


def _sums(numbers: Numbers, values: Probabilities | Counts, size: int) -> Counts:
    """Return the sum of the values of each number, in double precision."""
    return np.bincount(numbers, values, size).astype(np.float64, copy=False)
