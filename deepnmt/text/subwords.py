"""Subwords of a language's words, cut by the codes in a folder and by the types of its training text.

All kinds of subwords have the marks of a BPE: each piece but the last of a word ends with `@@`. So a reader of subwords
need not know their kind, which is in the first line of the codes. If a word of the text ends with `@@` or one of
fairseq's symbols, that end is cut into characters, and stays text.
"""

import io
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

from deepnmt.errors import UserError
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.lines import clean, read_lines
from deepnmt.text.placeholders import TAGS, parse_kinds
from deepnmt.text.settings import TextSettings
from deepnmt.text.unigram import END_OF_WORD, CutWords, Unigram
from deepnmt.text.unigram import HEADER as UNIGRAM
from deepnmt.text.units import Units

CODES, VOCABULARY = "codes", "vocabulary"
SEPARATOR = "@@"
# First lines of codes: of merges, and of no codes at all.
MERGES, CHARACTERS = "#version: 0.2", "#characters"
BYTE = re.compile("<0x([0-9A-F]{2})>")
BYTES = re.compile("(?:<0x[0-9A-F]{2}>)+")
# Text with another meaning at the end of a word.
AMBIGUOUS = re.compile("|".join(map(re.escape, (SEPARATOR, *SPECIAL_SYMBOLS))))


def codes_name(settings: TextSettings, language: str) -> str:
    """Return the name of the file with the codes of a language."""
    return f"{CODES}.{language}" if settings.separate else CODES


def subword_files(settings: TextSettings) -> list[str]:
    """Return the names of the files in a folder that say how words are cut."""
    names = [codes_name(settings, language) for language in settings.languages]
    if settings.limited:
        names += [f"{VOCABULARY}.{language}" for language in settings.languages]
    return list(dict.fromkeys(names))


class Bpe:
    """Segments tokens by the merge operations in a file of codes, as `subword-nmt apply-bpe` does.

    Only pieces of `types` may be left; others are taken apart again, as far as there were merges. Raises `UserError` if
    the file is no file of codes.
    """

    def __init__(self, codes: Path, types: Collection[str] | None = None) -> None:
        check_codes(codes)
        self._lines, self._types = list(read_lines(codes)), types
        merges = [tuple(line.strip("\r\n ").split(" ")) for line in self._lines[1:]]
        # Of two equal ones, the first counts.
        self._ranks: dict[Any, int] = {pair: rank for rank, pair in reversed([*enumerate(merges)])}
        self._made = ["".join(pair) for pair in merges]
        self.cache = CutWords()

    @cached_property
    def _bpe(self) -> Any:
        """subword-nmt's, which knows dropout and types."""
        from subword_nmt.apply_bpe import BPE

        return BPE(io.StringIO("".join(self._lines)), vocab=self._types)

    def __call__(self, tokens: str, dropout: float = 0) -> str:
        """Segment one line; `dropout` is the probability of leaving out a merge, drawn from the module `random`."""
        return as_text(self._segment, tokens, dropout)

    def _segment(self, tokens: str, dropout: float) -> str:
        if not tokens:
            return ""
        if dropout:
            # subword-nmt keeps every word that it has ever cut, as it was cut last.
            self._bpe.cache = {}
            return str(self._bpe.segment(tokens, dropout))
        # Another thread may still read the words of before.
        self.cache = cache = self.cache.bounded()
        words = tokens.split(" ")
        for word in words:
            if word not in cache:
                cache[word] = self.cut(word)
        return " ".join([cache[word] for word in words])

    def cut(self, word: str) -> str:
        """Return the subwords of a word."""
        if self._types:
            self._bpe.cache = {}
            return str(self._bpe.segment(word))
        find, most = self._ranks.get, len(self._made)
        symbols = [*word[:-1], word[-1] + END_OF_WORD]
        ranks = [find(pair, most) for pair in zip(symbols, symbols[1:])]
        while ranks and (rank := min(ranks)) < most:
            place, made = ranks.index(rank), self._made[rank]
            while True:
                symbols[place : place + 2] = [made]
                del ranks[place]
                if place:
                    ranks[place - 1] = find((symbols[place - 1], made), most)
                if place == len(ranks):
                    break
                ranks[place] = find((made, symbols[place + 1]), most)
                # The next one of the pairs that were there before.
                if rank not in ranks[place + 1 :]:
                    break
                place = ranks.index(rank, place + 1)
        symbols[-1] = symbols[-1].removesuffix(END_OF_WORD)
        return f"{SEPARATOR} ".join(symbols)


def check_codes(path: Path) -> int:
    """Return the number of merge operations in a file of codes. Raises `UserError` for any other file."""
    number = 0
    for number, line in enumerate(read_lines(path), start=1):
        text = line.strip("\r\n ")
        if number == 1 and text != MERGES:
            raise UserError(f"{path}:1: must be '{MERGES}', but is '{text[:60]}'")
        # subword-nmt ends the whole process on it.
        if number > 1 and len(text.split(" ")) != 2:
            raise UserError(f"{path}:{number}: must be two symbols, but is '{text[:60]}'")
    if number < 2:
        raise UserError(f"{path}: contains no merge operations")
    return number - 1


class Subwords:
    """Cuts lines of tokens of one language, by the codes in the folder of the data or the model.

    `limited`: cut by the types of the training text, too, where the settings say so. Raises `UserError` if a file is
    missing or faulty.
    """

    def __init__(self, folder: Path, settings: TextSettings, language: str, limited: bool = True) -> None:
        self.codes = folder / codes_name(settings, language)
        kind = kind_of(self.codes)
        self.settings, self.types = settings, frozenset[str]()
        self.units = Units(settings.protect, settings.lowercase)
        self.tags = frozenset(TAGS[name] for name in parse_kinds(settings.placeholders))
        self.limited = limited and settings.limited
        if self.limited:
            self.types = read_vocabulary(folder / f"{VOCABULARY}.{language}")
        few = self.types if self.limited and settings.vocabulary_threshold else None
        self._cut: Callable[..., str]
        if kind == MERGES:
            self._cut = Bpe(self.codes, few)
        else:
            cut = _by_word(Unigram.read(self.codes).restricted(few) if kind == UNIGRAM else list)
            self._cut = partial(as_text, cut)

    def __call__(self, tokens: str, dropout: float = 0) -> str:
        """Return the subwords of a line of tokens.

        With dropout, merges are left out with that probability, or a unigram model draws cuts with that sharpness.
        """
        if not self.tags and not self.units.patterns:
            return self._line(tokens, dropout)
        return " ".join(
            _as_text(word) if self._is_whole(word) else self._line(word, dropout) for word in tokens.split()
        )

    @property
    def by_merges(self) -> bool:
        """Whether the merges alone cut words."""
        return isinstance(self._cut, Bpe) and not (self.limited or self.tags or self.units.patterns)

    def of_words(self, words: Sequence[str]) -> list[str]:
        """Return the subwords of each word."""
        alone = self.by_merges and not AMBIGUOUS.search(" ".join(words))
        return list(map(self._cut.cut if alone and isinstance(self._cut, Bpe) else self, words))

    def _is_whole(self, word: str) -> bool:
        """Return whether a word is not cut; a unit that the training text lacks is, where the types are limited."""
        whole = word in self.tags or word in self.units
        return whole and (not self.limited or word in self.types)

    def _line(self, tokens: str, dropout: float) -> str:
        line = self._cut(tokens, dropout)
        if not self.limited or not line:
            return line
        return " ".join(chain.from_iterable(map(self._within_types, words_of(line))))

    def _within_types(self, pieces: list[str]) -> list[str]:
        """Return the pieces of a word with those spelt that the training text lacks."""
        literal = self.settings.byte_fallback and BYTE.search(join_bpe(" ".join(pieces)))
        if not literal and all(piece in self.types for piece in pieces):
            return pieces
        spelt: list[str] = []
        for piece in pieces:
            if literal or self.settings.spell_unknown or piece not in self.types:
                text = piece.removesuffix(SEPARATOR)
                spelt += [sign + SEPARATOR for sign in text[:-1]] + [text[-1:] + piece[len(text) :]]
            else:
                spelt.append(piece)
        if not self.settings.byte_fallback:
            return spelt
        # Text that looks like a byte must not be read as one.
        return [
            symbol
            for piece in spelt
            for symbol in ([piece] if piece in self.types and not (literal and piece[0] == "<") else _bytes_of(piece))
        ]


def kind_of(codes: Path) -> str:
    """Return the first line of codes. Raises `UserError` if it is missing, or their kind is unknown."""
    if not codes.is_file():
        raise UserError(f"{codes}: no such file; its folder must be one made by deepnmt preprocess or deepnmt export")
    first = next(read_lines(codes), "").strip("\r\n ")
    if first not in (MERGES, UNIGRAM, CHARACTERS):
        raise UserError(f"{codes}:1: must be '{MERGES}', '{UNIGRAM}' or '{CHARACTERS}', but is '{first[:60]}'")
    return first


def words_of(subwords: str) -> Iterable[list[str]]:
    """Yield the pieces of each word of a line of subwords."""
    word: list[str] = []
    for piece in subwords.split(" "):
        word.append(piece)
        if not piece.endswith(SEPARATOR):
            yield word
            word = []
    if word:
        yield word


def join_bpe(subwords: str) -> str:
    """Return the tokens of a line of subwords, as fairseq's `--post-process subword_nmt` does."""
    return (subwords + " ").replace(SEPARATOR + " ", "").rstrip()


def join_bytes(tokens: str) -> str:
    """Return a line of tokens with characters in place of their bytes, such as <0xC3><0xA4>.

    A model may write any bytes: a line feed's, or another control character's, end a word and not the line.
    """
    return clean(BYTES.sub(lambda run: bytes.fromhex("".join(BYTE.findall(run[0]))).decode("utf-8", "replace"), tokens))


def byte_of(piece: str) -> int:
    """Return the byte that a piece such as <0xC3>@@ stands for, or -1."""
    found = BYTE.fullmatch(piece.removesuffix(SEPARATOR))
    return int(found[1], 16) if found else -1


def byte_symbols() -> list[str]:
    """Return all bytes as types, within words and at their ends."""
    return [f"<0x{byte:02X}>{mark}" for mark in (SEPARATOR, "") for byte in range(256)]


def has_bytes(types: Iterable[str]) -> bool:
    """Return whether the types of a dictionary come from text with byte fallback."""
    return set(byte_symbols()).issubset(types)


def write_vocabulary(path: Path, types: Mapping[str, int], least: int, characters: bool = False) -> None:
    """Write the types whose counts are at least `least`; with `characters`, these too.

    Characters are then types both within words and at their ends.
    """
    counts = Counter(types)
    if characters:
        letters: Counter[str] = Counter()
        for piece, count in counts.items():
            for letter in piece.removesuffix(SEPARATOR):
                letters[letter] += count
        for letter, count in letters.items():
            for name in (letter, letter + SEPARATOR):
                counts[name] = max(count, counts[name])
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{piece}\n" for piece in sorted(counts) if counts[piece] >= least)


def read_vocabulary(path: Path) -> frozenset[str]:
    """Return the types in a file. Raises `UserError` if it has no types."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; its folder must be one made by deepnmt preprocess or deepnmt export")
    return frozenset(line.rstrip("\n") for line in read_lines(path))


def as_text(cut: Callable[..., str], tokens: str, dropout: float = 0) -> str:
    """Return the subwords of a line, without any symbol of fairseq's.

    White space of any kind ends a word, as it does for fairseq. `cut` turns tokens with single spaces between them, and
    a dropout, the probability of leaving out a merge, into subwords.
    """
    words = tokens.split()
    if not AMBIGUOUS.search(tokens):
        return cut(" ".join(words), dropout)
    return " ".join(_as_text(cut(word, dropout)) for word in words)


def _as_text(word: str) -> str:
    """Return the subwords of a word, with the last one in characters if it reads as something else."""
    *pieces, last = word.split(" ")
    if last in SPECIAL_SYMBOLS or last.endswith(SEPARATOR):
        pieces += [*(sign + SEPARATOR for sign in last[:-1]), last[-1]]
        return " ".join(pieces)
    return word


def pieces_of(symbol: str) -> list[str]:
    """Return the pieces of a word that a symbol of a BPE becomes: one, unless it would read as something else."""
    ends = symbol.endswith(END_OF_WORD)
    return _as_text(symbol.removesuffix(END_OF_WORD)).split(" ") if ends else [symbol + SEPARATOR]


def within_types(subwords: str, types: Container[str]) -> str:
    """Return a line of subwords with the characters of those pieces that are no types, in their place."""
    pieces: list[str] = []
    for piece in subwords.split():
        text = piece.removesuffix(SEPARATOR)
        spelt = [*(f"{sign}{SEPARATOR}" for sign in text[:-1]), text[-1:] + piece[len(text) :]]
        pieces += [piece] if piece in types else spelt
    return " ".join(pieces)


def _by_word(cut: Callable[[str], Sequence[str]]) -> Callable[..., str]:
    """Return a function of lines from one of words; with dropout, it draws the cuts of a unigram model."""

    def cut_line(tokens: str, dropout: float = 0) -> str:
        drawn = partial(cut.drawn, sharpness=dropout) if dropout and isinstance(cut, Unigram) else cut
        return " ".join(f"{SEPARATOR} ".join(drawn(word)) for word in tokens.split())

    return cut_line


def _bytes_of(piece: str) -> list[str]:
    text = piece.removesuffix(SEPARATOR)
    symbols = [f"<0x{byte:02X}>{SEPARATOR}" for byte in text.encode("utf-8")]
    symbols[-1] = symbols[-1].removesuffix(SEPARATOR) + piece[len(text) :]
    return symbols
