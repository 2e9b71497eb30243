"""Merges of a BPE (Sennrich 2016, P16-1162), learnt from distinct words as subword-nmt 0.3.8 learns them from text.

The most frequent pair of adjacent symbols is merged; of several, the greatest pair of strings. All occurrences of a
string that no merge has crossed are cut alike, so that one merge alone makes a symbol. subword-nmt counts otherwise
where two do, which needs words with the text of the mark for their end. Such words are left to it.

All words are one array of cells, a character each. The cell where a symbol begins has its number; the first and the
last cell of a symbol have its length. Words stand between cells with the symbol 0.
"""

import heapq
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deepnmt.text.unigram import END_OF_WORD

LEAST = 2
INSIDE = -1
# Numbers of symbols are below.
BASE = 1 << 31
SLICE, BUCKETS = 1 << 22, 1 << 20
# Counts and places are known of pairs with at least this part of the best pair's count.
PART = 100
LAST_CHARACTER = 0x10FFFF
Numbers = NDArray[np.integer[Any]]
Pairs = Iterator[tuple[int, int, Numbers]]
Cut = Callable[[Numbers, list[str]], object]


def learn_pairs(words: Sequence[tuple[str, Numbers]], merges: int, cut: Cut | None = None) -> Iterator[tuple[str, str]]:
    """Yield the merges in their order.

    Args:
        words: texts of distinct words, each word ended by a line feed, and the counts of these
        merges: maximum number of merges
        cut: told at the end how the words are cut, unless subword-nmt cuts them. It gets the numbers of their symbols,
            with 0 after each word, and the texts of the symbols.
    """
    if any(END_OF_WORD in text for text, _ in words):
        return _by_subword_nmt(words, merges)
    return MergeLearner(words).learn(merges, cut)


def _by_subword_nmt(words: Sequence[tuple[str, Numbers]], merges: int) -> Iterator[tuple[str, str]]:
    from subword_nmt.learn_bpe import learn_bpe

    lines = (f"{word} {count}" for text, counts in words for word, count in zip(text.split("\n"), counts.tolist()))
    codes = io.StringIO()
    learn_bpe(lines, codes, merges, is_dict=True)
    for line in codes.getvalue().split("\n")[1:-1]:
        first, second = line.split(" ")
        yield first, second


class MergeLearner:
    """Words, as far as they are merged; see `learn_pairs`."""

    def __init__(self, words: Sequence[tuple[str, Numbers]]) -> None:
        codes = np.frombuffer("".join(["\n", *(text for text, _ in words)]).encode("utf-32-le"), np.uint32)
        is_end = codes == ord("\n")
        self.symbols, self.texts = _first_symbols(codes, is_end)
        lengths = np.diff(np.flatnonzero(is_end))
        self.spans = np.ones(len(codes), np.min_scalar_type(int(lengths.max(initial=0))))
        self.uses = np.zeros(len(codes), np.int32)
        self.uses[1:] = np.repeat(np.concatenate([counts for _, counts in words]), lengths)
        # Turned round, so that the greatest string is the first.
        self.turned = [_turned(text) for text in self.texts]
        # Of the pairs whose counts are not below the threshold, or have not been since it was set.
        self.threshold = 0
        self.counts: dict[int, int] = {}
        self.places: dict[int, list[Numbers]] = {}
        self.heap: list[tuple[int, str, str, int]] = []

    def learn(self, merges: int, cut: Cut | None = None) -> Iterator[tuple[str, str]]:
        """Yield the merges in their order, up to a number; see `learn_pairs`."""
        for _ in range(merges):
            best = self._best()
            if self.counts.get(best, 0) < max(self.threshold, LEAST):
                self._count()
                best = self._best()
                if self.counts.get(best, 0) < LEAST:
                    break
            first, second = divmod(best, BASE)
            yield self.texts[first], self.texts[second]
            self._merge(best, first, second)
        if cut:
            # A merge is made wherever it can be before the next one: so are words cut by the codes.
            symbols, texts = self.symbols[self.symbols != INSIDE][1:], self.texts
            # Others need the memory.
            vars(self).clear()
            cut(symbols, texts)

    def _count(self, part: int = PART) -> None:
        """Count all pairs, and set the threshold below which they are forgotten."""
        totals = np.zeros(BUCKETS)
        for keys, at in self._pairs():
            totals += np.bincount(self._bucket(keys), self.uses[at], BUCKETS)
        self.threshold = int(totals.max()) // part
        counts: dict[int, int] = {}
        self.places = {}
        for keys, at in self._pairs():
            often = totals[self._bucket(keys)] >= self.threshold
            for key, count, places in _by_key(keys[often], at[often], self.uses[at[often]]):
                counts[key] = counts.get(key, 0) + count
                self.places.setdefault(key, []).append(places)
        if max(counts.values(), default=0) < self.threshold:
            # The buckets have too many pairs each to tell.
            self._count(BUCKETS * BASE)
            return
        self.counts = {key: count for key, count in counts.items() if count >= self.threshold}
        self.heap = [self._entry(key, count) for key, count in self.counts.items()]
        heapq.heapify(self.heap)

    def _bucket(self, keys: Numbers) -> Numbers:
        """Return a small number for each pair, its own while there are few symbols."""
        return (keys // BASE * len(self.texts) + keys % BASE) % BUCKETS

    def _entry(self, key: int, count: int) -> tuple[int, str, str, int]:
        first, second = divmod(key, BASE)
        return -count, self.turned[first], self.turned[second], key

    def _best(self) -> int:
        """Return the best of the pairs with known counts; -1 without such a pair."""
        while self.heap:
            count, _, _, key = self.heap[0]
            if (now := self.counts.get(key, 0)) == -count:
                return key
            # Counts only become smaller.
            heapq.heappop(self.heap)
            if now >= self.threshold and now:
                heapq.heappush(self.heap, self._entry(key, now))
        return -1

    def _pairs(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the keys and the places of all pairs, a slice of the cells after the other."""
        for begin in range(0, len(self.symbols), SLICE):
            at = np.flatnonzero(self.symbols[begin : begin + SLICE] > 0).astype(np.int32) + np.int32(begin)
            second = self.symbols[at + self.spans[at]]
            at, second = at[second > 0], second[second > 0]
            yield self.symbols[at].astype(np.int64) * BASE + second, at

    def _merge(self, pair: int, first: int, second: int) -> None:
        at = self._places_of(pair, first, second)
        del self.counts[pair]
        made = len(self.texts)
        self.texts.append(self.texts[first] + self.texts[second])
        self.turned.append(_turned(self.texts[made]))
        other = at + self.spans[at]
        span = self.spans[at] + self.spans[other]
        self.symbols[other], self.symbols[at] = INSIDE, made
        self.spans[at] = self.spans[at + span - 1] = span
        uses = self.uses[at]
        left, right = at - self.spans[at - 1], at + span
        before, after = self.symbols[left], self.symbols[right]
        kept = before > 0
        for symbol, count, places in _by_key(before[kept], left[kept], uses[kept]):
            # Of two merged pairs side by side, there was a pair between them.
            self._change((second if symbol == made else symbol) * BASE + first, count)
            self._add(symbol * BASE + made, count, places)
        kept = (after > 0) & (after != made)
        for symbol, count, places in _by_key(after[kept], at[kept], uses[kept]):
            self._change(second * BASE + symbol, count)
            self._add(made * BASE + symbol, count, places)

    def _change(self, key: int, by: int) -> None:
        """Count a pair less often."""
        if key in self.counts:
            self.counts[key] -= by

    def _add(self, key: int, count: int, places: Numbers) -> None:
        """Count a new pair."""
        if count >= self.threshold:
            self.counts[key], self.places[key] = count, [places]
            heapq.heappush(self.heap, self._entry(key, count))

    def _places_of(self, pair: int, first: int, second: int) -> Numbers:
        """Return where a pair begins, in order; of overlapping ones every other."""
        at: Numbers = np.concatenate(self.places.pop(pair))
        at = at[self.symbols[at] == first]
        at = at[self.symbols[at + self.spans[at]] == second]
        if first == second:
            at = np.sort(at)
            numbers = np.arange(len(at))
            begins = np.concatenate(([True], at[1:] != (at + self.spans[at])[:-1]))
            at = at[(numbers - np.maximum.accumulate(np.where(begins, numbers, 0))) % 2 == 0]
        return at


def _by_key(keys: Numbers, places: Numbers, uses: Numbers) -> Pairs:
    """Yield the different keys, with the sum of the uses and the places of each."""
    if not len(keys):
        return
    order = np.argsort(keys)
    keys, places = keys[order], places[order]
    begins = np.concatenate(([0], np.flatnonzero(keys[1:] != keys[:-1]) + 1))
    sums = np.add.reduceat(uses[order], begins, dtype=np.int64)
    cuts = [*begins.tolist(), len(places)]
    for key, count, begin, end in zip(keys[begins].tolist(), sums.tolist(), cuts, cuts[1:]):
        yield key, count, places[begin:end]


def _turned(text: str) -> str:
    return "".join([chr(LAST_CHARACTER - ord(sign)) for sign in text] + [chr(LAST_CHARACTER)])


def _first_symbols(codes: Numbers, is_end: NDArray[np.bool_]) -> tuple[NDArray[np.int32], list[str]]:
    """Return the symbols of cells with one character each, and the texts of all symbols; the one of an end is 0."""
    symbols = (codes * 2).astype(np.int32)
    symbols[:-1] += is_end[1:]
    symbols[is_end] = 0
    there = np.zeros(2 * (LAST_CHARACTER + 1), bool)
    there[symbols] = True
    there[0] = True
    names = np.flatnonzero(there)
    texts = [chr(name // 2) + (END_OF_WORD if name % 2 else "") for name in names.tolist()]
    return (np.cumsum(there, dtype=np.int32) - 1)[symbols], ["", *texts[1:]]
