"""Word pieces (Schuster 2012, ICASSP): merges that raise the likelihood of a unigram model the most for each use.

    gain(a, b) = log P(ab) - log P(a) - log P(b)                                                                (40)

Pairs that are rare, but nearly always adjacent, have the largest gains. Therefore a merge must occur often enough to
count. The merges are a file of codes like a BPE's, and cut words in the same way.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np

Pair = tuple[str, str]
END_OF_WORD = "</w>"


def symbols_of(words: Mapping[str, int]) -> list[list[str]]:
    """Return each word as characters, the last one marked."""
    return [[*word[:-1], word[-1] + END_OF_WORD] for word in words]


def learn_word_pieces(words: Mapping[str, int], merges: int, least: int) -> list[Pair]:
    """Return the merges in the order in which they are made; equal gains: the more frequent first, then by name.

    There are at most `merges`, each of a pair seen at least `least` times. The words come with their counts.
    """
    cuts, counts = symbols_of(words), list(words.values())
    singles: Counter[str] = Counter()
    for cut, count in zip(cuts, counts):
        for symbol in cut:
            singles[symbol] += count
    table = _Pairs()
    where: dict[Pair, set[int]] = defaultdict(set)
    for number, (cut, count) in enumerate(zip(cuts, counts)):
        for pair in zip(cut, cut[1:]):
            table.add(pair, count)
            where[pair].add(number)
    made: list[Pair] = []
    while len(made) < merges and (best := table.best(singles, least)) is not None:
        made.append(best)
        for number in where.pop(best):
            old, new, count = cuts[number], merged(cuts[number], best), counts[number]
            for cut, sign in ((old, -1), (new, 1)):
                for symbol in cut:
                    singles[symbol] += sign * count
                for pair in zip(cut, cut[1:]):
                    table.add(pair, sign * count)
                    where[pair].add(number)
            cuts[number] = new
    return made


def merged(cut: list[str], pair: Pair) -> list[str]:
    """Return a cut with each occurrence of a pair merged, from left to right."""
    new: list[str] = []
    position = 0
    while position < len(cut):
        if tuple(cut[position : position + 2]) == pair:
            new.append("".join(pair))
            position += 2
        else:
            new.append(cut[position])
            position += 1
    return new


class _Pairs:
    """The counts of all pairs, in arrays."""

    def __init__(self) -> None:
        self.numbers: dict[Pair, int] = {}
        self.names: dict[str, int] = {}
        self.pairs: list[Pair] = []
        self.counts = np.zeros(1024, np.int64)
        self.parts = np.zeros((2, 1024), np.int64)

    def add(self, pair: Pair, count: int) -> None:
        number = self.numbers.setdefault(pair, len(self.pairs))
        if number == len(self.pairs):
            self.pairs.append(pair)
            if number == len(self.counts):
                self.counts = np.concatenate((self.counts, np.zeros_like(self.counts)))
                self.parts = np.concatenate((self.parts, np.zeros_like(self.parts)), axis=1)
            self.parts[:, number] = [self.names.setdefault(name, len(self.names)) for name in pair]
        self.counts[number] += count

    def best(self, singles: Mapping[str, int], least: int) -> Pair | None:
        """Return the pair with the largest gain; None if no pair is seen often enough."""
        number = len(self.pairs)
        often = np.flatnonzero(self.counts[:number] >= least)
        if not len(often):
            return None
        uses = np.array([singles[name] for name in self.names], np.float64)
        first, second = uses[self.parts[:, often]]
        # P(ab) / (P(a) P(b)) without the number of all symbols, which is the same for all pairs.
        gains = self.counts[often] / (first * second)
        equal: list[int] = often[gains == gains.max()].tolist()
        return min((self.pairs[each] for each in equal), key=lambda pair: (-int(self.counts[self.numbers[pair]]), pair))
