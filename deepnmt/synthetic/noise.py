"""Noise on the words of a synthetic source (Edunov 2018, arXiv 1808.09381; methods in `docs/synthetic.md`).

    a word is deleted with probability p_d; a remaining word is blanked with p_b, and the rest is sorted by
    i + u_i,  u_i ~ U(0, k + 1)                                                                                  (29)

Hence no word moves more than k places. fairseq's own noise draws from U(0, k), which moves at most k - 1.

A word takes the marks of spaces before it along. In a language without spaces between words it is a character, as in
all counts of words. Remaining characters of a token stay one token where they stay adjacent.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, TypeVar

from deepnmt.errors import UserError
from deepnmt.text.languages import is_unspaced
from deepnmt.text.units import ATTACHED, SPACED, escaped_all, unescaped
from deepnmt.text.words import SYMBOLS, signs_of

BLANK = "<BLANK>"  # stands for a blanked word
Word = TypeVar("Word")


@dataclass(frozen=True)
class Noise:
    """How much noise there is; by default none.

    Attributes:
        delete: probability p_d
        blank: probability p_b
        shuffle: greatest number of places k that a word moves
    """

    delete: float = 0.0
    blank: float = 0.0
    shuffle: int = 0

    @classmethod
    def parse(cls, text: str) -> "Noise":
        """Return the noise of a text such as `delete=0.1,blank=0.1,shuffle=3`.

        Raises:
            UserError: it has another form, a rate is outside [0, 1), or the places are no whole number
        """
        names = [item.name for item in fields(cls)]
        values: dict[str, float] = {}
        for part in text.split(","):
            name, _, value = part.partition("=")
            if name not in names or name in values:
                raise UserError(f"--noise must be {', '.join(names)}, each once with its value, but is '{text}'")
            try:
                values[name] = int(value) if name == "shuffle" else float(value)
            except ValueError:
                raise UserError(f"--noise {name} must be a number, but is {value}") from None
            if name == "shuffle":
                if values[name] < 0:
                    raise UserError(f"--noise shuffle must be at least 0, but is {value}")
            elif not 0 <= values[name] < 1:
                raise UserError(f"--noise {name} must be at least 0 and below 1, but is {value}")
        return cls(values.get("delete", 0.0), values.get("blank", 0.0), int(values.get("shuffle", 0)))

    def __call__(self, words: Sequence[Word], draw: random.Random) -> list[Word | str]:
        """Return words with noise; where all would be deleted, one of them stays."""
        kept = [word for word in words if draw.random() >= self.delete] or [draw.choice(words)]
        left = [BLANK if draw.random() < self.blank else word for word in kept]
        places = [place + draw.random() * (self.shuffle + 1) for place in range(len(left))]
        return [word for _, word in sorted(zip(places, left), key=lambda pair: pair[0])]


NO_NOISE = Noise()


def draw_for(seed: int, line: int) -> random.Random:
    """Return the random numbers of a line, which do not depend on the lines before it."""
    return random.Random(f"{seed} {line}")


class Part(NamedTuple):
    """A word, the token that it is of, and the marks before it."""

    text: str
    token: int
    marks: tuple[str, ...]


def noisy(tokens: Sequence[str], language: str, noise: Noise, draw: random.Random) -> list[str]:
    """Return the tokens of a line with noise on its words.

    Args:
        tokens: tokens of the line
        language: language of the line
        noise: amount of noise
        draw: random numbers
    """
    line: list[str] = []
    before: int | None = None
    for part in noise(_parts(tokens, language), draw):
        if isinstance(part, str):
            line.append(part)
            before = None
            continue
        if part.token == before:
            line[-1] += part.text
        else:
            line += [*part.marks, part.text]
        before = part.token
    return line


def _parts(tokens: Sequence[str], language: str) -> list[Part]:
    parts: list[Part] = []
    marks: tuple[str, ...] = ()
    for number, token in enumerate(tokens):
        if token in (ATTACHED, SPACED):
            marks = (*marks, token)
            continue
        whole = token in SYMBOLS or not is_unspaced(language)
        for text in [token] if whole else map(escaped_all, signs_of(unescaped(token))):
            parts.append(Part(text, number, marks))
            marks = ()
    return parts
