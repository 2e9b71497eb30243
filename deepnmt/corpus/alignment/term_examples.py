"""Training pairs with inline targets (`text/inline_targets.py`), made from aligned pairs.

A term is up to three source words linked to up to three target words, without links to words outside (Koehn 2003,
N03-1017). All terms of a pair have the same chance to be drawn.

Half of the drawn terms get another term's translation, in the source and in the target. A model that has only seen
right translations leaves out unexpected ones.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from deepnmt.corpus.alignment.grow_diag import Link
from deepnmt.text.inline_targets import inline
from deepnmt.text.placeholders import TAGS

LONGEST = 3
# At most one term per this number of source words.
WORDS_PER_TERM = 3
STRANGE = 0.5
# Translations that strange terms are drawn from, seen in the lines before.
POOL = 1000
Span = tuple[int, int]
TermSpans = tuple[Span, Span]


@dataclass
class Counts:
    """Counts of the results: pairs with inline targets, their terms, and the terms with another term's translation."""

    kept: int = 0
    terms: int = 0
    strange: int = 0


def term_spans(source: Sequence[str], target: Sequence[str], links: Sequence[Link]) -> list[TermSpans]:
    """Return where the terms of a pair are: begin and end among the words of the source, and of the target."""
    targets: dict[int, list[int]] = {}
    sources: dict[int, list[int]] = {}
    for i, j in links:
        targets.setdefault(i, []).append(j)
        sources.setdefault(j, []).append(i)
    found = []
    for begin in range(len(source)):
        for end in range(begin + 1, min(begin + LONGEST, len(source)) + 1):
            linked = [j for i in range(begin, end) for j in targets.get(i, ())]
            if begin not in targets or end - 1 not in targets:
                continue
            low, high = min(linked), max(linked) + 1
            back = (i for j in range(low, high) for i in sources.get(j, ()))
            if high - low > LONGEST or not all(begin <= i < end for i in back):
                continue
            if all(map(_is_word, (*source[begin:end], *target[low:high]))):
                found.append(((begin, end), (low, high)))
    return found


def _is_word(token: str) -> bool:
    return token not in TAGS.values() and any(sign.isalpha() for sign in token) and not token.startswith("&")


@dataclass
class TermExamples:
    """Makes examples of a share of the pairs, each from the number of its line alone but for strange translations."""

    share: float
    made: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._pool: deque[list[str]] = deque(maxlen=POOL)

    def __call__(self, pairs: Iterable[tuple[str, str, Sequence[Link]]]) -> Iterator[tuple[str, str]]:
        """Yield source and target of the examples of aligned pairs of tokenised lines."""
        for number, (source, target, links) in enumerate(pairs):
            draw = random.Random(f"inline {number}")
            if draw.random() < self.share:
                words = source.split(), target.split()
                if terms := self._drawn(draw, *words, links):
                    yield self._example(draw, *words, terms)

    def _drawn(
        self, draw: random.Random, source: Sequence[str], target: Sequence[str], links: Sequence[Link]
    ) -> list[TermSpans]:
        """Return some terms of a pair that do not overlap, the last one first."""
        left, chosen = term_spans(source, target, links), []
        for _ in range(draw.randint(1, max(1, len(source) // WORDS_PER_TERM))):
            if not left:
                break
            term = draw.choice(left)
            chosen.append(term)
            left = [each for each in left if all(_apart(*sides) for sides in zip(each, term))]
        return sorted(chosen, reverse=True)

    def _example(
        self, draw: random.Random, source: list[str], target: list[str], terms: Sequence[TermSpans]
    ) -> tuple[str, str]:
        replaced: list[tuple[Span, list[str]]] = []
        for here, there in terms:
            translation = target[slice(*there)]
            own = translation
            if self._pool and draw.random() < STRANGE:
                translation = draw.choice(self._pool)
                self.made.strange += 1
            self._pool.append(own)
            source[slice(*here)] = inline(source[slice(*here)], translation)
            replaced.append((there, translation))
        for span, translation in sorted(replaced, reverse=True):
            target[slice(*span)] = translation
        self.made.kept += 1
        self.made.terms += len(terms)
        return " ".join(source), " ".join(target)


def _apart(one: Span, other: Span) -> bool:
    return one[1] <= other[0] or other[1] <= one[0]
