"""A line of several sentences: each is translated by itself, and the white space between them is kept."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from deepnmt.text.languages import main_language
from deepnmt.text.lines import CONTROL
from deepnmt.text.sentences import split_sentences
from deepnmt.text.signs import is_wide_language

if TYPE_CHECKING:
    from deepnmt.translator.translator import Translated, Translation

# They end a line for some readers; a tab separates columns.
BREAKS = re.compile(rf"[\u2028\u2029]|{CONTROL.pattern}")


@dataclass(frozen=True)
class Paragraph:
    """A line as its sentences, and the white space between their translations.

    Attributes:
        sentences: at least one
        gaps: one fewer
    """

    sentences: Sequence[str]
    gaps: Sequence[str]

    @classmethod
    def of(cls, line: str, source_lang: str, target_lang: str) -> Paragraph:
        """Return the paragraph of a line. Japanese and Chinese have no space between sentences; others need one."""
        sentences = split_sentences(line, source_lang)
        gaps = [BREAKS.sub(" ", sentence[len(sentence.rstrip()) :]) for sentence in sentences[:-1]]
        source, target = (is_wide_language(main_language(each)) for each in (source_lang, target_lang))
        if source != target:
            old, new = ("", " ") if source else (" ", "")
            gaps = [new if gap == old else gap for gap in gaps]
        return cls(sentences, gaps)

    def joined(self, sentences: Sequence[Translated]) -> Translated:
        """Return the line's result from its sentences' results.

        Its n-th translation has the n-th of each sentence. Its score is the mean of theirs, weighted by subwords, the
        end symbols counted. A sentence with a fault leaves all of the line untranslated.
        """
        if len(sentences) == 1:
            return sentences[0]
        first = sentences[0]
        for number, sentence in enumerate(sentences, 1):
            if sentence.fault:
                return dataclasses.replace(sentence, fault=f"{sentence.fault} (sentence {number})")
        return dataclasses.replace(
            first,
            translations=list(self._translations([sentence.translations for sentence in sentences])),
            source=list(chain.from_iterable(sentence.source for sentence in sentences)),
            unknown=list(chain.from_iterable(sentence.unknown for sentence in sentences)),
            tokens=" ".join(sentence.tokens for sentence in sentences),
            terms=list(chain.from_iterable(sentence.terms for sentence in sentences)),
            missing=list(chain.from_iterable(sentence.missing for sentence in sentences)),
        )

    def _translations(self, lists: Sequence[Sequence[Translation]]) -> Iterator[Translation]:
        for rank in range(max(map(len, lists))):
            parts = [each[min(rank, len(each) - 1)] for each in lists]
            lengths = [len(part.tokens) + 1 for part in parts]
            yield dataclasses.replace(
                parts[0],
                text="".join(chain.from_iterable(zip((part.text for part in parts), [*self.gaps, ""]))),
                score=sum(part.score * length for part, length in zip(parts, lengths)) / sum(lengths),
                tokens=list(chain.from_iterable(part.tokens for part in parts)),
            )
