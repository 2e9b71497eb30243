"""Recipes of `deepnmt clean`: a filter per line, in their order of use.

    length 1:100
    ratio 0.5:2            # # starts a comment
    numbers
    score align.tsv:forward >= -5
    dedup pair
    lexicon aligned        # options about the scores of pairs, and about the number to keep, are allowed too
    train-classifier
    keep-best 0.8

An option of the command overrides the recipe's line of its name; other filters come after the recipe's.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deepnmt.corpus.cleaning.filters import DEDUP, INTERVAL, KINDS, LEAST, SCORE, Kind
from deepnmt.errors import UserError
from deepnmt.text.lines import read_lines

DEDUP_KINDS = ("pair", "source", "target")
CONDITION = re.compile(r"(?P<file>.+?)\s*(?P<sign>>=|<=)\s*(?P<bound>\S+)")


class Said(NamedTuple):
    """Another setting of a recipe or an option, with the name of its value; empty: it has no value."""

    metavar: str
    help: str


OPTIONS = {
    "lexicon": Said("FOLDER", "lexicons made by deepnmt align --raw --lexicon"),
    "language-models": Said("'SOURCE.arpa TARGET.arpa'", "models made by deepnmt ngram train --raw"),
    "classifier": Said("FILE", "classifier to score by, learnt earlier"),
    "train-classifier": Said("", "learn, from all measures, to tell pairs that pass the filters except --dedup from "
        "broken ones; the classifier becomes OUTPUT.classifier.json"),
    "rank-by": Said("FILE[:COLUMN]", "scores in a file, a line for each pair, in place of a classifier's"),
    "keep-best": Said("N|SHARE", "number of best pairs to keep that pass the filters, or a share such as 0.9"),
    "keep-unseen": Said("C", "count of a word below which a pair with it is kept even if --keep-best leaves it "
        "out; best pairs come first"),
}  # fmt: skip
REPEATABLE = ("score", "dedup")


@dataclass(frozen=True)
class Filter:
    """A filter with its bounds: `low` and `high` pass. A file of scores with one column needs no name of the column."""

    name: str
    value: str
    low: float = -math.inf
    high: float = math.inf
    file: str = ""
    column: str = ""

    @property
    def measures(self) -> bool:
        """Return whether it looks at a measure of the pair itself."""
        return self.name in KINDS and KINDS[self.name].measures

    @property
    def text(self) -> str:
        """The object of its measurement."""
        return KINDS[self.name].text if self.name in KINDS else "score of the pair"

    @property
    def label(self) -> str:
        """The filter as a line of a recipe."""
        return f"{self.name} {self.value}"


def parse_filter(name: str, value: str, place: str) -> Filter:
    """Return a filter; an empty value is the kind's default, and messages begin with `place`.

    Raises `UserError` if there is no such kind, or the value is wrong.
    """
    if name not in KINDS:
        raise UserError(f"{place}: must be one of {', '.join((*KINDS, *OPTIONS))}, but is '{name[:60]}'")
    kind = KINDS[name]
    value = value or kind.default
    if not value:
        raise UserError(f"{place}: needs a value {kind.syntax}")
    if kind.syntax == DEDUP:
        if value not in DEDUP_KINDS:
            raise UserError(f"{place}: must be pair, source or target, but is '{value[:60]}'")
        return Filter(name, value)
    if kind.syntax == SCORE:
        return _score_filter(value, place)
    if kind.syntax == INTERVAL:
        low, colon, high = value.partition(":")
        if not colon:
            raise UserError(f"{place}: must be {INTERVAL}, but is '{value[:60]}'")
        bounds = Filter(name, value, _bound(low, kind, place), _bound(high, kind, place))
        if bounds.low > bounds.high:
            raise UserError(f"{place}: must have a low bound that is at most the high one, but is {value}")
        return bounds
    bound = _bound(value, kind, place)
    return Filter(name, value, low=bound) if kind.syntax == LEAST else Filter(name, value, high=bound)


def _bound(text: str, kind: Kind, place: str) -> float:
    what = "a whole number" if kind.whole else "a number"
    try:
        number = int(text) if kind.whole else float(text)
    except ValueError:
        raise UserError(f"{place}: must be {what}, but is '{text[:60]}'") from None
    if math.isnan(number) or not kind.low <= number <= kind.high:
        limits = f"from {kind.low:g} to {kind.high:g}" if kind.high < math.inf else f"at least {kind.low:g}"
        raise UserError(f"{place}: must be {what} {limits}, but is {text}")
    return number


def _score_filter(value: str, place: str) -> Filter:
    found = CONDITION.fullmatch(value)
    if not found:
        raise UserError(f"{place}: must be FILE[:COLUMN] >= X or FILE[:COLUMN] <= X, but is '{value[:60]}'")
    bound = _bound(found["bound"], KINDS["score"], place)
    file, column = split_column(found["file"])
    low, high = (bound, math.inf) if found["sign"] == ">=" else (-math.inf, bound)
    return Filter("score", f"{found['file']} {found['sign']} {found['bound']}", low, high, file, column)


def split_column(text: str) -> tuple[str, str]:
    """Return the file and the column that FILE[:COLUMN] names; a file that is there may have a colon in its name."""
    file, colon, column = text.rpartition(":")
    return (file, column) if colon and "/" not in column and not Path(text).exists() else (text, "")


def read_recipe(path: Path) -> tuple[list[Filter], dict[str, str]]:
    """Return the filters of a recipe and its options. Raises `UserError` that names the first faulty line."""
    filters, options = [], {}
    for number, line in enumerate(read_lines(path), start=1):
        words = line.split("#")[0].split(maxsplit=1)
        name, value = words[:1], "".join(words[1:]).strip()
        if name and name[0] in OPTIONS:
            wanted = bool(OPTIONS[name[0]].metavar)
            if bool(value) != wanted:
                raise UserError(f"{path}:{number}: {name[0]} must have {'a' if wanted else 'no'} value")
            options[name[0]] = value
        elif words:
            place = f"{path}:{number}" + (f": {words[0]}" if words[0] in KINDS else "")
            filters.append(parse_filter(words[0], value, place))
    if not filters and not options:
        raise UserError(f"{path}: contains no filters, one per line")
    return filters, options


def joined(recipe: Iterable[Filter], options: Sequence[Filter]) -> tuple[Filter, ...]:
    """Return the filters of a recipe and of the command line, whose bounds win where both have the filter.

    Raises `UserError` if one stands twice.
    """
    filters = list(recipe)
    for option in options:
        places = [number for number, each in enumerate(filters) if each.name == option.name not in REPEATABLE]
        if places:
            filters[places[0]] = option
        else:
            filters.append(option)
    labels = [each.name if each.name not in REPEATABLE else each.label for each in filters]
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"{label}: must stand once among the filters, but stands {labels.count(label)} times")
    return tuple(filters)
