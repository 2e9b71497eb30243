"""Numbers and addresses as tags: a model learns where they go, and they are put back by their order.

In training, a kind is replaced in a pair whose sides have the same units of it in the same order. In translation,
the source's units are always replaced. The n-th tag of a kind in the translation becomes the n-th unit of the source. A
tag without a unit is left out.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from deepnmt.errors import UserError
from deepnmt.text.signs import UNSPACED_LETTERS
from deepnmt.text.units import unescaped

# Characters that end an address anywhere, and characters that are no part of it at its end.
_NEVER, _NOT_LAST = r"\s<>\"“”„«»—()", r".,;:!?\]}'’‘‚`´…"
# Between the digits, of any script, of numbers, dates and times; the others may also stand before a number. In Chinese
# the full-width comma parts clauses: it is one within full-width numbers alone.
_BETWEEN, _OTHERS = ".,:/\u066b\u066c", "\u060c\uff0e\uff0f\uff1a\u2236'\u2019\u02bc\u2010\u2011-"
_COMMA, _FRACTIONS = "\uff0c(?=[\uff10-\uff19]{3}(?!\\d))", "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
# Of whole tokens; as units they are hidden from the tokeniser, which would cut them. Numbers may stand beside letters
# of scripts without spaces, such as 第10章. An address has brackets in pairs.
PATTERNS = {
    "numbers": rf"(?:(?<![\w{_BETWEEN}])|(?<=[{UNSPACED_LETTERS}])(?<!\d))"
    rf"(?:\d+(?:(?:[{_BETWEEN}{_OTHERS}]|{_COMMA})\d+)*[{_FRACTIONS}]?|[{_FRACTIONS}])"
    rf"(?!\d|(?![{UNSPACED_LETTERS}])\w|(?:[{_BETWEEN}{_OTHERS}]|{_COMMA})\d)",
    "urls": rf"(?:(?:https?|ftp)://|www\.)[^{_NEVER}]*(?:\([^{_NEVER}]*\)[^{_NEVER}]*)*"
    rf"(?:\([^{_NEVER}]*\)|[^{_NEVER}{_NOT_LAST}])",
}
# Of data whose record lacks `all_numbers`.
EARLIER_NUMBERS = r"(?<![\w.,:/])\d+(?:[.,:/]\d+)*(?!\w|[.,:/]\d)"
# Of data whose units are not hidden first: Moses' normalisation has set brackets apart, and made all quotes straight.
LATE_PATTERNS = {**PATTERNS, "urls": r"(?:(?:https?|ftp)://|www\.)[^\s<>\"]*[^\s<>\".,;:!?)\]}']"}
TAGS = {"numbers": "<num>", "urls": "<url>"}


def parse_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds in a list with commas, in the order of `PATTERNS`. Raises `UserError` if one is unknown."""
    given = [kind for kind in text.split(",") if kind]
    for kind in given:
        if kind not in PATTERNS:
            raise UserError(f"--placeholders must be {', '.join(PATTERNS)}, or both with a comma, but has '{kind}'")
    return tuple(kind for kind in PATTERNS if kind in given)


class Placeholders:
    """Replaces units by tags, and tags by units, of some kinds of `PATTERNS`."""

    def __init__(self, kinds: Iterable[str], patterns: Mapping[str, str] = PATTERNS) -> None:
        self.patterns = {TAGS[kind]: re.compile(patterns[kind]) for kind in kinds}

    def __contains__(self, token: object) -> bool:
        """Return whether a token is a unit."""
        return bool(self._tag(str(token)))

    def units(self, tokens: str) -> dict[str, list[str]]:
        """Return the units of a line of tokens, by their tags."""
        found: dict[str, list[str]] = {tag: [] for tag in self.patterns}
        for token in tokens.split():
            if tag := self._tag(token):
                found[tag].append(token)
        return found

    def tagged(self, tokens: str, tags: Iterable[str] | None = None) -> str:
        """Return a line of tokens with these tags, by default all, in the place of units."""
        chosen = self.patterns.keys() if tags is None else tags
        return " ".join(tag if (tag := self._tag(token)) in chosen else token for token in tokens.split())

    def tagged_pair(self, source: str, target: str) -> tuple[str, str]:
        """Return both sides with tags for the units that they agree on."""
        one, other = self.units(source), self.units(target)
        tags = [tag for tag in self.patterns if one[tag] == other[tag]]
        return self.tagged(source, tags), self.tagged(target, tags)

    def filled(self, tokens: str, source: str) -> str:
        """Return a translation with the units of its source in the place of tags."""
        left = {tag: iter(units) for tag, units in self.units(source).items()}
        words = [next(left[token], "") if token in left else token for token in tokens.split()]
        return " ".join(word for word in words if word)

    def _tag(self, token: str) -> str:
        if token in self.patterns:
            # As text, in the line that is translated.
            return token
        text = unescaped(token)
        return next((tag for tag, pattern in self.patterns.items() if pattern.fullmatch(text)), "")


def first_tag(tokens: str, tags: Sequence[str]) -> str:
    """Return the first token that is a tag; empty if none is."""
    return next((token for token in tokens.split() if token in tags), "")
