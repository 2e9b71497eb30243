"""The texts of candidates and their references, and BLEU of any choice from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from deepnmt.reranking.bleu_statistics import Array, BleuStatistics, corpus_bleu, table
from deepnmt.reranking.feature_table import Choice
from deepnmt.reranking.merged_lists import MergedLists
from deepnmt.reranking.tuning import bleu_of
from deepnmt.text.languages import bleu_tokenizer
from deepnmt.text.pipeline import Detokenizer
from deepnmt.text.subwords import join_bpe, join_bytes
from deepnmt.text.translated_folder import data_settings, lines_of


@dataclass
class Corpus:
    """Candidates as text that BLEU compares: detokenised where there is a raw reference, else as tokens.

    Attributes:
        texts: of each sentence
        references: of each sentence
        language: of both
        tokenised: the texts are tokens
        lowercase: case does not count
    """

    texts: list[list[str]]
    references: list[str]
    language: str
    tokenised: bool
    lowercase: bool
    truecase: bool
    byte_fallback: bool = False
    segment: str = ""
    _cache: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, data: Path, lists: MergedLists) -> Corpus:
        """Return the texts of merged lists of a data folder."""
        settings = data_settings(data, lists.reverse)
        language = settings.target_lang
        raw = data / "text" / f"{lists.subset}.raw.{language}"
        path = raw if raw.exists() else data / "text" / f"{lists.subset}.tok.{language}"
        settled = (settings.lowercase, settings.truecase, settings.byte_fallback, settings.segment)
        result = cls([], lines_of(path), language, not raw.exists(), *settled)
        result.texts = [[result.text(each.subwords) for each in found] for found in lists.candidates]
        return result

    @cached_property
    def _detokenize(self) -> Detokenizer:
        return Detokenizer(self.language, self.truecase, self.segment)

    def text(self, subwords: str) -> str:
        """Return what BLEU compares of a translation."""
        if subwords not in self._cache:
            tokens = join_bytes(join_bpe(subwords)) if self.byte_fallback else join_bpe(subwords)
            self._cache[subwords] = tokens if self.tokenised else self._detokenize(tokens)
        return self._cache[subwords]

    @cached_property
    def count(self) -> BleuStatistics:
        """What counts n-grams."""
        return BleuStatistics("none" if self.tokenised else bleu_tokenizer(self.language), self.lowercase)

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
        texts = [[self.text(each or "")] for each in translations]
        return float(corpus_bleu(table(texts, self.references, self.count)[:, 0].sum(axis=0)))
