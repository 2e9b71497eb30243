"""Text whose words are cut anew in every epoch, by BPE-dropout or from a unigram model.

Each word draws from its own stream of SplitMix64 (Steele 2014, OOPSLA). The stream begins at a mix of the seeds, the
line and the word's place in it. The cut is thus independent of other draws and of the process.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deepnmt.data.cut_walks import MISSING, Walks
from deepnmt.errors import UserError
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.subwords import SEPARATOR

Integers = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]
GOLDEN = 0x9E3779B97F4A7C15


def mixed(numbers: Unsigned) -> Unsigned:
    """Return SplitMix64's output function of each number."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


class LineDraws:
    """Draws for words, by the number of each word's line and its place there.

    The seeds are, for example, the training's, the epoch, and the side.
    """

    def __init__(self, seeds: tuple[int, ...], lines: Integers, places: Integers) -> None:
        base = np.random.SeedSequence(seeds).generate_state(1, np.uint64)
        of_line = mixed(base + np.uint64(GOLDEN) * (lines.astype(np.uint64) + np.uint64(1)))
        self.streams = mixed(of_line + np.uint64(GOLDEN) * (places.astype(np.uint64) + np.uint64(1)))

    def __call__(self, words: Integers, step: int) -> npt.NDArray[np.float64]:
        """Return a number above 0 and at most 1 for each word, from one step of its stream."""
        drawn = mixed(self.streams[words] + np.uint64(GOLDEN * (step + 1) % 2**64))
        # The 53 bits of a float64.
        shares: npt.NDArray[np.float64] = ((drawn >> np.uint64(11)).astype(np.float64) + 1) / 2**53
        return shares


@dataclass(frozen=True)
class SentenceWords:
    """The words of a text; end symbols count as words.

    Attributes:
        kinds: pieces of each different word, as their numbers in the dictionary
        words: the kind of each word of the text, one sentence after the other
        lengths: words of each sentence
    """

    kinds: list[tuple[int, ...]]
    words: npt.NDArray[np.int32]
    lengths: Integers

    @property
    def lines(self) -> Integers:
        """The number of each word's sentence."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def places(self) -> Integers:
        """The place of each word in its sentence."""
        begins = np.cumsum(self.lengths) - self.lengths
        return np.arange(len(self.words)) - np.repeat(begins, self.lengths)


def words_of(sentences: Iterable[Sequence[int]], types: Sequence[str]) -> SentenceWords:
    """Return the words of sentences of token numbers, each with its end symbol; `types` are the dictionary's."""
    continued = [name.endswith(SEPARATOR) for name in types]
    numbers: dict[tuple[int, ...], int] = {}
    words: list[int] = []
    lengths: list[int] = []
    for sentence in sentences:
        before, pieces = len(words), []
        for token in sentence:
            pieces.append(token)
            if not continued[token]:
                words.append(numbers.setdefault(tuple(pieces), len(numbers)))
                pieces = []
        if pieces:
            words.append(numbers.setdefault(tuple(pieces), len(numbers)))
        lengths.append(len(words) - before)
    return SentenceWords(list(numbers), np.array(words, np.int32), np.array(lengths, np.int64))


# Words that are cut at a time, which bounds the memory.
BLOCK = 1 << 20
# Number of states, about 600 MB, at which the walks forget them all.
MOST_STATES = 2_000_000


class RecutText:
    """One side of a training text; its first cut is the given one.

    A word keeps that cut in three cases. Without sampling it has another cut, as protected names, tags and unknown
    characters do. Or sampling leaves a piece missing in the dictionary. Or the sentence would become too long.

    Args:
        sentences: numbers of the pieces, each with its end symbol
        types: of the dictionary, by number
        walks: draw the cuts
        longest: most pieces of a sentence, the end symbol counted

    Attributes:
        lengths: pieces of each sentence
        kept: number of words that kept their cut because the dictionary lacks a type

    Raises:
        UserError: the walks contradict most of the given cuts
    """

    def __init__(
        self,
        sentences: Iterable[Sequence[int]],
        types: Sequence[str],
        walks: Walks,
        longest: int,
    ) -> None:
        self.types, self.longest, self.kept = types, longest, 0
        self.text = words_of(sentences, types)
        self.lines, self.places = self.text.lines, self.text.places
        self.walks = walks
        self._start()
        self._take(self.ends[self.text.words])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, line: int) -> Integers:
        """Return the numbers of the pieces of a sentence, with the end symbol."""
        end = self.line_ends[line]
        return self.pieces[end - self.lengths[line] : end].astype(np.int64)

    def cut(self, seeds: tuple[int, ...]) -> None:
        """Cut the words anew."""
        if len(self.walks.cuts) > MOST_STATES:
            self.walks.forget()
            self._start()
        words = self.text.words
        states = np.empty(len(words), np.int64)
        for begin in range(0, len(words), BLOCK):
            block = slice(begin, begin + BLOCK)
            draw = LineDraws(seeds, self.lines[block], self.places[block])
            states[block] = self.walks.walk(self.starts[words[block]], draw)
        pieces, lengths = self.walks.pieces_of(states)
        lacking = np.minimum.reduceat(pieces, np.cumsum(lengths) - lengths) == MISSING
        self.kept = int(lacking.sum())
        sums = np.add.reduceat(lengths, np.cumsum(self.text.lengths) - self.text.lengths)
        self._take(np.where(lacking | (sums > self.longest)[self.lines], self.ends[words], states))

    def _start(self) -> None:
        """Find for each kind of word the initial state of its walks, and the state of its given cut."""
        starts, ends = [], []
        odd = np.zeros(len(self.text.kinds), bool)
        for number, pieces in enumerate(self.text.kinds):
            names = [self.types[piece] for piece in pieces]
            special = min(pieces) < len(SPECIAL_SYMBOLS)
            if not special:
                word = "".join(name.removesuffix(SEPARATOR) for name in names)
                end = self.walks.plain(word)
                odd[number] = tuple(self.walks.pieces_of(np.array([end]))[0]) != pieces
            if special or odd[number]:
                start = end = self.walks.fixed(pieces)
            else:
                start = self.walks.start(word)
            starts.append(start)
            ends.append(end)
        self.starts, self.ends = np.array(starts), np.array(ends)
        if (share := odd[self.text.words].mean()) > 0.5:
            actual = f"{share:.0%} of its words are cut in another way"
            raise UserError(f"{self.walks.option}: the codes of DATA must match its training text, but {actual}")

    def _take(self, states: Integers) -> None:
        """Store the pieces of the text's words."""
        pieces, lengths = self.walks.pieces_of(states)
        self.pieces = pieces.astype(np.int32)
        self.lengths = np.add.reduceat(lengths, np.cumsum(self.text.lengths) - self.text.lengths)
        self.line_ends = np.cumsum(self.lengths)
