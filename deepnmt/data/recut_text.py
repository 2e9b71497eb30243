"""Text whose words are cut anew in every epoch, by BPE-dropout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from deepnmt.data.line_draws import LineDraws
from deepnmt.data.merge_walks import MISSING, MergeWalks
from deepnmt.data.sentence_words import words_of
from deepnmt.errors import UserError
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.subwords import SEPARATOR

Integers = npt.NDArray[np.int64]
# Words that are cut at a time, which bounds the memory.
BLOCK = 1 << 20
# From this number of states on, about 600 MB, the walks forget them all.
MOST_STATES = 2_000_000


class RecutText:
    """One side of a training text; its cut is at first the one that it comes with.

    A word keeps that cut where the merges without dropout do not give it, as those of protected names, tags and unknown
    characters; where dropout leaves a piece that the dictionary lacks; and in a sentence that would become too long.

    Args:
        sentences: numbers of the pieces, each with its end symbol
        types: of the dictionary, by number
        ranks: of the merges
        longest: pieces that a sentence may have, the end symbol counted

    Attributes:
        lengths: pieces of each sentence
        kept: how many words kept their cut for want of a type in the dictionary

    Raises:
        UserError: the merges do not give most of the cuts that the text comes with
    """

    def __init__(
        self,
        sentences: Iterable[Sequence[int]],
        types: Sequence[str],
        ranks: Mapping[tuple[str, str], int],
        longest: int,
    ) -> None:
        self.types, self.longest, self.kept = types, longest, 0
        self.text = words_of(sentences, types)
        self.lines, self.places = self.text.lines, self.text.places
        self.walks = MergeWalks(ranks, {name: number for number, name in enumerate(types)})
        self._start()
        self._take(self.ends[self.text.words])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, line: int) -> Integers:
        """Return the numbers of the pieces of a sentence, with the end symbol."""
        end = self.line_ends[line]
        return self.pieces[end - self.lengths[line] : end].astype(np.int64)

    def cut(self, rate: float, seeds: tuple[int, ...]) -> None:
        """Cut the words anew.

        Args:
            rate: probability of leaving out a merge, above 0 and below 1
            seeds: such as the training's, the epoch, and the side
        """
        if len(self.walks.cuts) > MOST_STATES:
            self.walks.forget()
            self._start()
        words = self.text.words
        states = np.empty(len(words), np.int64)
        for begin in range(0, len(words), BLOCK):
            block = slice(begin, begin + BLOCK)
            draw = LineDraws(seeds, self.lines[block], self.places[block])
            states[block] = self.walks.walk(self.starts[words[block]], rate, draw)
        pieces, lengths = self.walks.pieces_of(states)
        lacking = np.minimum.reduceat(pieces, np.cumsum(lengths) - lengths) == MISSING
        self.kept = int(lacking.sum())
        sums = np.add.reduceat(lengths, np.cumsum(self.text.lengths) - self.text.lengths)
        self._take(np.where(lacking | (sums > self.longest)[self.lines], self.ends[words], states))

    def _start(self) -> None:
        """Find for each kind of word the state that its walks begin with, and that of the cut that it comes with."""
        starts, ends = [], []
        odd = np.zeros(len(self.text.kinds), bool)
        for number, pieces in enumerate(self.text.kinds):
            names = [self.types[piece] for piece in pieces]
            special = min(pieces) < len(SPECIAL_SYMBOLS)
            if not special:
                start = self.walks.start("".join(name.removesuffix(SEPARATOR) for name in names))
                end = self.walks.merged(start)
                odd[number] = tuple(self.walks.pieces_of(np.array([end]))[0]) != pieces
            if special or odd[number]:
                start = end = self.walks.fixed(pieces)
            starts.append(start)
            ends.append(end)
        self.starts, self.ends = np.array(starts), np.array(ends)
        if (share := odd[self.text.words].mean()) > 0.5:
            raise UserError(
                "--bpe-dropout: the codes of DATA must be those that its training text was cut by, but "
                f"{share:.0%} of its words are cut in another way"
            )

    def _take(self, states: Integers) -> None:
        """Write down the pieces of the text's words."""
        pieces, lengths = self.walks.pieces_of(states)
        self.pieces = pieces.astype(np.int32)
        self.lengths = np.add.reduceat(lengths, np.cumsum(self.text.lengths) - self.text.lengths)
        self.line_ends = np.cumsum(self.lengths)
