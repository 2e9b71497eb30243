"""Noise on the words of a synthetic source (Edunov 2018, arXiv 1808.09381; methods in `docs/synthetic.md`).

    a word is deleted with probability p_d, one that is left is blanked with p_b, and what remains is sorted by
    i + u_i,  u_i ~ U(0, k + 1)                                                                                  (29)

so that no word moves more than k places. fairseq's own noise draws from U(0, k), which moves at most k - 1.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields

from deepnmt.errors import UserError

BLANK = "<BLANK>"  # stands for a blanked word


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
    def parse(cls, text: str) -> Noise:
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

    def __call__(self, words: Sequence[str], draw: random.Random) -> list[str]:
        """Return words with noise; where all would be deleted, one of them stays."""
        kept = [word for word in words if draw.random() >= self.delete] or [draw.choice(words)]
        kept = [BLANK if draw.random() < self.blank else word for word in kept]
        places = [place + draw.random() * (self.shuffle + 1) for place in range(len(kept))]
        return [word for _, word in sorted(zip(places, kept), key=lambda pair: pair[0])]


NO_NOISE = Noise()


def draw_for(seed: int, line: int) -> random.Random:
    """Return the random numbers of a line, which do not depend on the lines before it."""
    return random.Random(f"{seed} {line}")
