"""Results of the map of depth (docs/depth-map.md): the gain of a deeper encoder by the size of the text.

`examples/depth_map/run.sh report` writes them to configs/depth_map/gains.tsv, which is installed with the recipes.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from deepnmt.errors import UserError
from deepnmt.recipe.named_recipes import folder
from deepnmt.text.columns import write_rows
from deepnmt.text.lines import read_text

FILE = "depth_map/gains.tsv"


class Gain(NamedTuple):
    """The difference of two recipes' mean BLEU on one text after the same core hours.

    Attributes:
        pairs: training pairs of the text
        hours: core hours of each training
        shallow, deep: recipes of configs/depth_map
        difference: BLEU of `deep` less BLEU of `shallow`
        error: standard error of the difference over seeds; NaN for one seed
        p: of the paired bootstrap over sentences
        seeds: number of trainings of each recipe
    """

    pairs: int
    hours: float
    shallow: str
    deep: str
    difference: float
    error: float
    p: float
    seeds: int

    @classmethod
    def of(cls, line: str, where: str) -> "Gain":
        """Return the gain in a line of the file. Raises `UserError`, which says `where`, for any other line."""
        words = line.split("\t")
        try:
            gain = cls(*(kind(word) for kind, word in zip(cls.__annotations__.values(), words, strict=True)))
        except ValueError:
            gain = None
        if gain is None or not gain.is_possible():
            raise UserError(f"{where}: must be {', '.join(cls._fields)} with tabs, but is '{line}'")
        return gain

    def is_possible(self) -> bool:
        """Return whether a comparison can have these numbers."""
        known = math.isfinite(self.difference) and not self.error < 0 and 0 <= self.p <= 1
        return known and 0 < self.hours < math.inf and min(self.pairs, self.seeds) > 0

    def __str__(self) -> str:
        error = "" if math.isnan(self.error) else f" ± {self.error:.2f}"
        return (
            f"{self.deep} less {self.shallow}: {self.difference:+.2f}{error} BLEU on {self.pairs:,} pairs "
            f"(core hours of each: {self.hours:g}, seeds: {self.seeds}, p {self.p:.3f})"
        )


HEAD = "\t".join(Gain._fields)


def read(path: Path | None = None) -> list[Gain]:
    """Return the gains of the installed file, or of another; none if there is no such file."""
    path = path or folder() / FILE
    head, *lines = read_text(path) if path.is_file() else [HEAD]
    if head != HEAD:
        raise UserError(f"{path}:1: must be {', '.join(Gain._fields)} with tabs, but is '{head}'")
    return [Gain.of(line, f"{path}:{number}") for number, line in enumerate(lines, start=2)]


def write(gains: Sequence[Gain], path: Path) -> None:
    """Write the file."""
    write_rows(path, [Gain._fields, *(tuple(map(str, gain)) for gain in gains)])


def advice(pairs: int, gains: Sequence[Gain]) -> list[str]:
    """Return the map's advice for a text with this number of pairs: the results on the text that is nearest in size."""
    if not gains:
        return ["map: docs/depth-map.md has no results yet"]
    nearest = min((gain.pairs for gain in gains), key=lambda known: abs(math.log(known / max(1, pairs))))
    found = [f"    {gain}" for gain in gains if gain.pairs == nearest]
    return [f"map, on the text nearest to {pairs:,} pairs in size:", *found]
