"""The texts of candidates and their references, and BLEU of any choice from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deepnmt.reranking.bleu_statistics import Array, BleuStatistics, Choice, corpus_bleu, table
from deepnmt.reranking.merged_lists import MergedLists
from deepnmt.reranking.tuning import bleu_of
from deepnmt.text.languages import bleu_tokenizer
from deepnmt.text.pipeline import Detokenizer, tokens_of
from deepnmt.text.settings import TextSettings
from deepnmt.text.token_bleu import token_tokenizer
from deepnmt.text.translated_folder import data_settings, lines_of
from deepnmt.text.words import comparable


@dataclass
class Corpus:
    """Candidates as text that BLEU compares: detokenised if a raw reference exists, else as tokens.

    Attributes:
        texts: of each sentence
        references: of each sentence
        sources: tokens of each sentence, whose units replace tags
        settings: of the data, in the direction of the translations
        tokenised: the texts are tokens
    """

    texts: list[list[str]]
    references: list[str]
    sources: list[str]
    settings: TextSettings
    tokenised: bool

    @classmethod
    def read(cls, data: Path, lists: MergedLists) -> Corpus:
        """Return the texts of merged lists of a data folder."""
        settings = data_settings(data, lists.reverse)
        source, target = settings.languages
        raw = data / "text" / f"{lists.subset}.raw.{target}"
        path = raw if raw.exists() else data / "text" / f"{lists.subset}.tok.{target}"
        sources = lines_of(data / "text" / f"{lists.subset}.tok.{source}")
        references = lines_of(path)
        if settings.lowercase:
            # sacrebleu itself ignores the language's rules.
            references = list(map(settings.casing(target).lower, references))
        if not raw.exists():
            references = [comparable(line, target) for line in references]
        result = cls([], references, sources, settings, not raw.exists())
        result.texts = [
            [result.text(number, each.subwords) for each in found] for number, found in enumerate(lists.candidates)
        ]
        return result

    @property
    def language(self) -> str:
        """Of texts and references."""
        return self.settings.target_lang

    @property
    def tokenize(self) -> str:
        """sacrebleu's name of BLEU's tokenisation."""
        return (token_tokenizer if self.tokenised else bleu_tokenizer)(self.language)

    @cached_property
    def _detokenize(self) -> Detokenizer:
        return Detokenizer.of(self.settings)

    def text(self, sentence: int, subwords: str) -> str:
        """Return the text of a sentence's translation that BLEU compares."""
        tokens = tokens_of(subwords, self.settings, self.sources[sentence])
        if self.tokenised:
            return comparable(tokens, self.language)
        return self._detokenize(tokens)

    @cached_property
    def count(self) -> BleuStatistics:
        """The counter of n-grams."""
        return BleuStatistics(self.tokenize, self.settings.lowercase)

    @cached_property
    def statistics(self) -> Array:
        """The statistics of all candidates, N x K x 10."""
        return table(self.texts, self.references, self.count)

    def size(self) -> int:
        """Return the number of candidates of all sentences."""
        return sum(map(len, self.texts))

    def bleu(self, choice: Choice) -> float:
        """Return the BLEU of a choice, N."""
        return bleu_of(self.statistics, choice)

    def bleu_of_subwords(self, translations: Sequence[str | None]) -> float:
        """Return the BLEU of a translation of each sentence; None is an empty one."""
        texts = [[self.text(number, each or "")] for number, each in enumerate(translations)]
        return float(corpus_bleu(table(texts, self.references, self.count)[:, 0].sum(axis=0)))

    def first_bleu(self, lists: MergedLists) -> list[float]:
        """Return the BLEU of the first translations of each list, rounded for a report."""
        return [round(self.bleu_of_subwords(top), 2) for top in lists.tops]
