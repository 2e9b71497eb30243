"""From translations to pairs: dropped pairs, and changes to a synthetic source."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Optional

from deepnmt.synthetic.noise import BLANK, NO_NOISE, Noise, draw_for, noisy
from deepnmt.text.dictionary import SPECIAL_SYMBOLS
from deepnmt.text.languages import is_unspaced
from deepnmt.text.subwords import Bpe, join_bpe
from deepnmt.text.words import number_of_words

UNKNOWN = "<unk>"
assert UNKNOWN in SPECIAL_SYMBOLS


class Pair(NamedTuple):
    """Both sides of a pair, in tokens and in subwords."""

    source: str
    target: str
    source_bpe: str
    target_bpe: str


@dataclass(frozen=True)
class PairRules:
    """Rules that turn a translation and its line into a pair.

    Attributes:
        codes: the BPE's merge operations
        languages: languages of source and target
        synthetic_source: the translation is the source; otherwise it is the target
        max_ratio: highest ratio of the two lengths in words; 0: no limit
        noise: noise on a synthetic source
        tag: first symbol of a synthetic source; empty: no tag
        seed: seed of the noise
    """

    codes: Path
    languages: tuple[str, str]
    synthetic_source: bool
    max_ratio: float = 0.0
    noise: Noise = NO_NOISE
    tag: str = ""
    seed: int = 1

    def pairs(
        self, lines: Iterable[tuple[str, str]], translations: Iterable[Optional[str]], counts: Counter[str]
    ) -> Iterator[Pair]:
        """Yield the pairs, and count kept and dropped ones.

        Args:
            lines: lines of real text, in tokens and in subwords
            translations: translations of the lines, in subwords; None for an untranslatable line
            counts: gets `read`, `kept`, and the reasons for dropping pairs
        """
        for number, ((tokens, subwords), translation) in enumerate(zip(lines, translations)):
            counts["read"] += 1
            reason = self._reason(tokens, translation)
            counts[reason] += 1
            if reason == "kept" and translation is not None:
                words = self._tokens(translation)
                if self.synthetic_source:
                    made = self._source(words, number)
                    yield Pair(made, tokens, self.segment(made), subwords)
                else:
                    made = " ".join(words)
                    yield Pair(tokens, made, subwords, self.segment(made))

    def _reason(self, tokens: str, translation: Optional[str]) -> str:
        if translation is None:
            return "too_long"
        made, real = self.languages if self.synthetic_source else self.languages[::-1]
        sides = (tokens, real), (join_bpe(translation), made)
        short, long = sorted(number_of_words(line, language, tokens=True) for line, language in sides)
        if short == 0:
            return "empty"
        return "ratio" if 0 < self.max_ratio * short < long else "kept"

    def _tokens(self, translation: str) -> list[str]:
        """Return the tokens of a translation; a clause with an unknown piece is not unknown as a whole."""
        tokens = join_bpe(translation)
        made = self.languages[0 if self.synthetic_source else 1]
        return (tokens.replace(UNKNOWN, f" {UNKNOWN} ") if is_unspaced(made) else tokens).split()

    def _source(self, words: list[str], number: int) -> str:
        if self.noise != NO_NOISE:
            words = noisy(words, self.languages[0], self.noise, draw_for(self.seed, number))
        return " ".join([self.tag, *words] if self.tag else words)

    def segment(self, tokens: str) -> str:
        """Return a line in subwords; symbols stay whole, and a word with an unknown piece is unknown."""
        symbols = {self.tag, BLANK}
        return " ".join(
            UNKNOWN if UNKNOWN in word else word if word in symbols else self._bpe(word) for word in tokens.split()
        )

    @cached_property
    def _bpe(self) -> Bpe:
        return Bpe(self.codes)
