"""Align pairs with the learnt tables, and score the fit of their words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from deepnmt.corpus.alignment.expectation import DIAGONAL, prior
from deepnmt.corpus.alignment.grow_diag import Link, grow_diag_final
from deepnmt.corpus.alignment.links import Links, Pair, pieces
from deepnmt.corpus.alignment.parallel_text import WordNumbers
from deepnmt.corpus.alignment.word_table import Tables, WordPairs
from deepnmt.text.words import Words

# Longer sides are not aligned: the links of a pair are as many as the product of its lengths.
LONGEST = 400
# Of a word that the table cannot explain at all.
LOWEST = 1e-9


class Aligned(NamedTuple):
    """A pair aligned.

    Attributes:
        forward: for each target word its best source word, if it is better than no word
        reverse: for each source word its best target word
        joined: grow-diag-final of both
        forward_score: mean log P of a target word, in nats
        reverse_score: mean log P of a source word
        share: share of the words of both sides that have a link in `joined`
    """

    forward: list[Link]
    reverse: list[Link]
    joined: list[Link]
    forward_score: float
    reverse_score: float
    share: float

    @property
    def scores(self) -> tuple[float, float, float, float]:
        """The mean of both directions' scores, both of them, and the share."""
        mean = (self.forward_score + self.reverse_score) / 2
        return mean, self.forward_score, self.reverse_score, self.share


# With an empty or an overlong side.
UNALIGNED = Aligned([], [], [], float(np.log(LOWEST)), float(np.log(LOWEST)), 0.0)


def aligned_share(links: Sequence[Link], source: int, target: int) -> float:
    """Return the share of a pair's words that have a link, 0 for a pair without words."""
    linked = len({i for i, _ in links}) + len({j for _, j in links})
    return linked / (source + target) if source + target else 0.0


@dataclass(frozen=True)
class PairAligner:
    """Aligns pairs of words by the learnt tables."""

    source: WordNumbers
    target: WordNumbers
    word_pairs: WordPairs
    tables: Tables

    def __call__(self, pairs: Sequence[tuple[Words, Words]]) -> list[Aligned]:
        """Return the alignments of pairs, in their order."""
        result = [UNALIGNED] * len(pairs)
        usable = [
            number for number, (source, target) in enumerate(pairs) if 0 < len(source) <= LONGEST >= len(target) > 0
        ]
        numbers = iter(usable)
        for piece in pieces((self.source.encode(pairs[n][0]), self.target.encode(pairs[n][1])) for n in usable):
            for aligned, number in zip(self._align(piece), numbers):
                result[number] = aligned
        return result

    def _align(self, pairs: Sequence[Pair]) -> list[Aligned]:
        links = Links.of(pairs, self.word_pairs.targets)
        forward, reverse = self.tables.at(self.word_pairs.places(links.keys))
        p, q = forward[links.inverse], reverse[links.inverse]
        result = [UNALIGNED] * len(pairs)
        for group in links.groups():
            _, n, m = group.shape
            before = prior(DIAGONAL, m, n)
            joint = p[group.links].reshape(group.shape) * before.forward
            null = before.forward_null * self.tables.forward_null[group.target]
            best = np.where(joint.max(axis=2) > null, joint.argmax(axis=2), -1).tolist()  # k x n
            total = np.maximum(joint.sum(axis=2, dtype=np.float64) + null, LOWEST)
            score = np.log(total).mean(axis=1).tolist()
            joint = q[group.links].reshape(group.shape) * before.reverse
            null = before.reverse_null * self.tables.reverse_null[group.source]
            reverse_best = np.where(joint.max(axis=1) > null, joint.argmax(axis=1), -1).tolist()  # k x m
            total = np.maximum(joint.sum(axis=1, dtype=np.float64) + null, LOWEST)
            reverse_score = np.log(total).mean(axis=1).tolist()
            for row, number in enumerate(group.pairs.tolist()):
                one = [(i, j) for j, i in enumerate(best[row]) if i >= 0]
                other = [(i, j) for i, j in enumerate(reverse_best[row]) if j >= 0]
                joined = grow_diag_final(one, other)
                share = aligned_share(joined, m, n)
                result[number] = Aligned(sorted(one), other, joined, score[row], reverse_score[row], share)
        return result
