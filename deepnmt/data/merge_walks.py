"""BPE-dropout (Provilkov 2020, ACL, arXiv 1910.13267): the possible cuts of a word, as walks.

A walk begins with the characters of a word. Each step tries the possible merges by ascending rank, equal ones from left
to right, and drops each with probability p. The first merge that is not dropped is made. The walk ends if all are
dropped, or none is possible. So the j-th merge of m, counted from 0, is made with probability

    p^j (1 - p),    and the walk ends with p^m                                                                (39)

A state is a possible cut of a word.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from deepnmt.data.cut_walks import MISSING, Floats, Integers, Walks
from deepnmt.text.lines import read_lines
from deepnmt.text.subwords import SEPARATOR, check_codes

END_OF_WORD = "</w>"


def read_merges(codes: Path) -> dict[tuple[str, str], int]:
    """Return the merges in a file of codes and their ranks. Raises `UserError` for an invalid file."""
    check_codes(codes)
    ranks: dict[tuple[str, str], int] = {}
    for rank, line in enumerate(list(read_lines(codes))[1:]):
        first, second = line.strip("\r\n ").split(" ")
        ranks.setdefault((first, second), rank)
    return ranks


class MergeWalks(Walks):
    """Walks by the ranks of the merges, each dropped with p = `rate`, above 0 and below 1."""

    option = "--bpe-dropout"

    def __init__(self, ranks: Mapping[tuple[str, str], int], types: Mapping[str, int], rate: float) -> None:
        super().__init__(types)
        self.ranks, self.rate = ranks, rate

    def start(self, word: str) -> int:
        """Return the state of a word that is cut into characters."""
        return self._state((*word[:-1], word[-1] + END_OF_WORD))

    def plain(self, word: str) -> int:
        """Return the final state of a word without dropout."""
        state = self.start(word)
        while self.degrees[state]:
            state = self._follow(self.places[state], state, 0)
        return state

    def _chosen(self, states: Integers, draws: Floats) -> Integers:
        return np.floor(np.log(draws) / math.log(self.rate))

    def _after(self, state: int, choice: int) -> int:
        cut = self.cuts[state]
        _, position = self._merges(cut)[choice]
        merged = cut[position] + cut[position + 1]
        return self._state((*cut[:position], merged, *cut[position + 2 :]))

    def _merges(self, cut: tuple[str, ...]) -> list[tuple[int, int]]:
        """Return rank and position of each possible merge, in the order of the trials."""
        ranks = self.ranks
        return sorted((ranks[pair], position) for position, pair in enumerate(zip(cut, cut[1:])) if pair in ranks)

    def _state(self, cut: tuple[str, ...]) -> int:
        number = self.numbers.get(cut)
        if number is None:
            *inner, last = cut
            names = [piece + SEPARATOR for piece in inner] + [last.removesuffix(END_OF_WORD)]
            number = self._add(cut, len(self._merges(cut)), [self.types.get(name, MISSING) for name in names])
            self.numbers[cut] = number
        return number
