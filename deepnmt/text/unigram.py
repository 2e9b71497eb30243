"""Subwords of a unigram model (Kudo 2018, ACL, arXiv 1804.10959): the cut of a word with the most probable pieces.

    argmax_{c_1 ... c_k = word} sum_i log P(c_i)                                                               (41)

The model is a file of codes. Its first line is `#unigram`; each other line is a piece, a tab and log P. A piece that
ends a word ends with `</w>`. Only learning the model needs sentencepiece.
"""

import io
import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines

HEADER = "#unigram"
END_OF_WORD = "</w>"
# sentencepiece's sign for white space, which no piece can have, and its penalty for unknown characters.
SPACE = "\u2581"
UNKNOWN_PENALTY = 10.0
# Of all words that are remembered, which take about 40 bytes a character with their pieces.
MOST_CHARACTERS = 1_000_000


class CutWords(dict[str, Any]):
    """The pieces of words that have been cut, as long as their characters are not too many."""

    def __init__(self) -> None:
        super().__init__()
        self.characters = 0

    def __setitem__(self, word: str, pieces: Any) -> None:
        super().__setitem__(word, pieces)
        self.characters += len(word)

    def bounded(self) -> "CutWords":
        """Return these words or, where they are too many, none; another thread may still read these."""
        return self if self.characters < MOST_CHARACTERS else CutWords()


class Unigram:
    """Cuts words by a unigram model, which gives log P of its pieces."""

    def __init__(self, log_probs: Mapping[str, float]) -> None:
        self.log_probs = log_probs
        self.longest = max(map(len, log_probs))
        self.unknown = min(log_probs.values()) - UNKNOWN_PENALTY
        self.cache = CutWords()

    @classmethod
    def read(cls, codes: Path) -> "Unigram":
        """Return the model in a file. Raises `UserError` for any other file."""
        log_probs: dict[str, float] = {}
        for number, line in enumerate(read_lines(codes), start=1):
            text = line.rstrip("\n")
            if number == 1 and text != HEADER:
                raise UserError(f"{codes}:1: must be '{HEADER}', but is '{text[:60]}'")
            if number > 1:
                piece, _, log_prob = text.partition("\t")
                try:
                    log_probs[piece] = float(log_prob)
                except ValueError:
                    raise UserError(f"{codes}:{number}: must be a piece and a number, but is '{text[:60]}'") from None
        if not log_probs:
            raise UserError(f"{codes}: contains no pieces")
        return cls(log_probs)

    def write(self, codes: Path) -> None:
        """Write the model into a file."""
        with codes.open("w", encoding="utf-8", newline="\n") as file:
            file.write(f"{HEADER}\n")
            file.writelines(f"{piece}\t{log_prob!r}\n" for piece, log_prob in self.log_probs.items())

    def restricted(self, types: Collection[str] | None) -> "Unigram":
        """Return the model with these pieces and single characters alone; None: with all.

        The types are as in a dictionary, where pieces within words end with @@.
        """
        if types is None:
            return self
        names = {name.removesuffix("@@") if name.endswith("@@") else name + END_OF_WORD for name in types}
        kept = {
            piece: log_prob
            for piece, log_prob in self.log_probs.items()
            if piece in names or len(piece.removesuffix(END_OF_WORD)) == 1
        }
        return Unigram(kept)

    def __call__(self, word: str) -> Sequence[str]:
        """Return the pieces of a word."""
        pieces = self.cache.get(word)
        if pieces is None:
            self.cache = self.cache.bounded()
            pieces = self.cache[word] = self._best(word)
        return pieces

    def drawn(self, word: str, sharpness: float) -> Sequence[str]:
        """Return the pieces of a word by (58), drawn by Python's generator."""
        # For each beginning of the word, the logarithm of its sum, and those of its last pieces by their begins.
        sums, lasts = [0.0], [dict[int, float]()]
        for to in range(1, len(word) + 1):
            last = {begin: sums[begin] + sharpness * log_prob for begin, log_prob in self._pieces(word, to)}
            highest = max(last.values())
            sums.append(highest + math.log(sum(math.exp(each - highest) for each in last.values())))
            lasts.append(last)
        return _divided(word, lambda to: random.choices(*zip(*_shares(lasts[to], sums[to])))[0])

    def _best(self, word: str) -> Sequence[str]:
        end = len(word)
        # The best sum for each beginning of the word, and where its last piece begins.
        sums, begins = [0.0] + [float("-inf")] * end, [0] * (end + 1)
        for to in range(1, end + 1):
            for begin, log_prob in self._pieces(word, to):
                if sums[begin] + log_prob > sums[to]:
                    sums[to], begins[to] = sums[begin] + log_prob, begin
        return _divided(word, begins.__getitem__)

    def _pieces(self, word: str, to: int) -> Iterator[tuple[int, float]]:
        """Yield the pieces that end after a word's first `to` characters: their begins and log P."""
        for begin in range(max(0, to - self.longest), to):
            piece = word[begin:to] + (END_OF_WORD if to == len(word) else "")
            log_prob = self.log_probs.get(piece, self.unknown if to == begin + 1 else None)
            if log_prob is not None:
                yield begin, log_prob


def _shares(last: Mapping[int, float], total: float) -> Iterator[tuple[int, float]]:
    """Yield begins of last pieces, and their probabilities, from logarithms."""
    yield from ((begin, math.exp(log_weight - total)) for begin, log_weight in last.items())


def _divided(word: str, begin: Callable[[int], int]) -> Sequence[str]:
    """Return the pieces of a word; `begin` gives the begin of its last piece for each number of characters."""
    pieces: list[str] = []
    end = len(word)
    while end:
        start = begin(end)
        pieces.append(word[start:end])
        end = start
    return pieces[::-1]


def learn_unigram(lines: Iterable[str], size: int) -> Unigram:
    """Return a model of `size` pieces or, if the text has fewer, fewer.

    Each character gets a piece within words and one at their end; missing ones are added. sentencepiece holds all lines
    in memory. Raises `UserError` if it is not installed.
    """
    try:
        import sentencepiece
    except ImportError:
        raise UserError(
            "--subwords unigram: sentencepiece must be installed, but is not: pip install 'deepnmt[subwords]'"
        ) from None
    written, characters = io.BytesIO(), set[str]()

    def seen() -> Iterator[str]:
        for line in lines:
            words = [word for word in line.split() if SPACE not in word]
            characters.update(*words)
            yield " ".join(words)

    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=seen(),
        model_writer=written,
        model_type="unigram",
        vocab_size=size + 1,
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="identity",
        treat_whitespace_as_suffix=True,
        max_sentence_length=1 << 20,
        num_threads=1,
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    found = {model.id_to_piece(number): model.get_score(number) for number in range(1, model.get_piece_size())}
    alone, least = found.pop(SPACE, min(found.values())), min(found.values())
    log_probs = {
        piece[:-1] + END_OF_WORD if piece.endswith(SPACE) else piece: log_prob for piece, log_prob in found.items()
    }
    # sentencepiece can end a word with white space alone as a piece.
    for character in sorted(characters):
        log_probs.setdefault(character + END_OF_WORD, log_probs.setdefault(character, least) + alone)
    return Unigram(log_probs)
