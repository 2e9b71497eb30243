"""Translating with a glossary: first without inline targets, then again where a term lacks its translation.

The second translation is taken if it has more of the translations. Models mostly know the usual translation of a word,
and inline targets cost a little of the rest of a sentence. Sentences without terms are translated as ever.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TypeVar

from deepnmt.text.found_terms import missing_terms
from deepnmt.text.glossary import Glossary
from deepnmt.text.pipeline import TextPipeline, restored
from deepnmt.text.terms import Term

Found = TypeVar("Found")


class SecondPass:
    """The second translation of sentences whose output lacks translations of terms.

    Attributes:
        terms: terms of each sentence
        twice: numbers of the sentences that were translated again
    """

    def __init__(
        self, glossary: Glossary, pipeline: TextPipeline, types: Container[str], sources: Mapping[int, str]
    ) -> None:
        self._glossary, self._pipeline, self._types, self._sources = glossary, pipeline, types, sources
        self.terms = {number: glossary.inline(tokens)[1] for number, tokens in sources.items()}
        self.twice: list[int] = []

    def read(self, number: int) -> str:
        """Return the subwords of a sentence with the translations of its terms."""
        return self._pipeline.segment(self._glossary.inline(self._sources[number])[0], self._types)

    def missing(self, number: int, tokens: str) -> list[Term]:
        """Return the terms of a sentence whose translations are not in a line of tokens, as a model writes them."""
        settings = self._pipeline.settings
        return missing_terms(restored(tokens, settings, self._sources[number]), self.terms[number], settings)

    def better(
        self,
        first: Mapping[int, Found],
        tokens: Callable[[Found], str],
        again: Callable[[Sequence[int]], Mapping[int, Found]],
    ) -> dict[int, Found]:
        """Return the translations that replace others, by the numbers of their sentences.

        The `first` translations have no inline targets; `again` translates with them, and may leave out too long
        sentences.
        """
        lacking = {number: len(self.missing(number, tokens(found))) for number, found in first.items()}
        self.twice = [number for number, left in lacking.items() if left]
        second = again(self.twice) if self.twice else {}
        return {
            number: found
            for number, found in second.items()
            if len(self.missing(number, tokens(found))) < lacking[number]
        }
