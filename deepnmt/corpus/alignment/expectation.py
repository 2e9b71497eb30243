"""The E step: how many links of each word pair a piece of text is expected to have, under both directions' models.

P(y_j, a_j = i) = P(a_j = i) t(y_j|x_i)          forward; reverse with the sides exchanged
"""

from typing import NamedTuple

import numpy as np

from deepnmt.corpus.alignment.links import Links
from deepnmt.corpus.alignment.priors import prior
from deepnmt.corpus.alignment.word_numbers import Numbers
from deepnmt.corpus.alignment.word_table import Counts, Probabilities, Tables


class Expected(NamedTuple):
    """What a piece of text is expected to have.

    Attributes:
        forward: links of each of the piece's keys
        reverse: the same in the reverse direction
        forward_null: target words linked to none, by word
        reverse_null: source words linked to none
        likelihoods: log P of all target words, and of all source words, in nats
    """

    forward: Counts
    reverse: Counts
    forward_null: Counts
    reverse_null: Counts
    likelihoods: Counts


def expected(links: Links, forward: Probabilities, reverse: Probabilities, tables: Tables, kind: str) -> Expected:
    """Return the expected numbers of links.

    Args:
        links: of the piece
        forward: t(y|x) of each of its keys
        reverse: t(x|y) of each of its keys
        tables: for the words that are linked to none
        kind: of the prior
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
