"""The translations that a search has found for a batch, and their risks.

Shapes: B sentences, at most K translations of each, H of them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor

from deepnmt.text.sentence_bleu import SentenceBleu
from deepnmt.text.subwords import has_bytes, join_bpe, join_bytes
from deepnmt.text.token_bleu import TokenBleu


class Words:
    """Joins subwords to words, those that BLEU of tokens compares.

    Args:
        dictionary: of the target
        language: of the target; by default one with spaces between words
    """

    def __init__(self, dictionary: Dictionary, language: str = "") -> None:
        self.bleu, self.bytes = TokenBleu(language), has_bytes(dictionary.symbols)
        self.symbols: list[str] = list(dictionary.symbols)
        self.pad: int = dictionary.pad()
        self.ignored = {self.pad, dictionary.eos()}

    def __call__(self, tokens: Tensor) -> list[str]:
        """Return the words of a sentence's tokens, without padding and end symbol."""
        text = join_bpe(" ".join(self.symbols[token] for token in tokens.tolist() if token not in self.ignored))
        return self.bleu.words(join_bytes(text) if self.bytes else text)


@dataclass(frozen=True)
class Translations:
    """Translations of a batch, sentence by sentence, the best first.

    Attributes:
        tokens: of each, with the end symbol, H
        places: which places of B x K are theirs
        risk: of each, B x K; 0 in places without one
        lengths: tokens of each reference, with the end symbol, B
    """

    tokens: list[Tensor]
    places: Tensor
    risk: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, found: Sequence[Sequence[dict[str, Any]]], target: Tensor, words: Words) -> Translations:
        """Return the translations that a generator has found.

        Args:
            found: by fairseq's generator
            target: the references, padded
            words: joins subwords
        """
        tokens = [[each["tokens"] for each in translations] for translations in found]
        places = torch.zeros(len(tokens), max(map(len, tokens)), dtype=torch.bool)
        risk = torch.zeros(places.shape, dtype=torch.float64)
        for row, (translations, reference) in enumerate(zip(tokens, target)):
            bleu = SentenceBleu(words(reference))
            places[row, : len(translations)] = True
            for rank, translation in enumerate(translations):
                risk[row, rank] = 1 - bleu(words(translation))
        return cls(
            [each for translations in tokens for each in translations],
            places.to(target.device),
            risk.to(target.device),
            target.ne(words.pad).sum(1),
        )

    @property
    def rows(self) -> Tensor:
        """Return the sentence of each reference, then of each translation, B + H."""
        sentences, translated = torch.arange(len(self.places)), self.places.nonzero()[:, 0]
        return torch.cat([sentences.to(translated), translated])
