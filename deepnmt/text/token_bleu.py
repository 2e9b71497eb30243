"""BLEU of texts in tokens, by the words of their language.

Between spaces stand words, and BLEU compares them as they are, without the marks of spaces. In a language without
spaces between words, a token may be a clause. sacrebleu's tokenisation of that language cuts it, so that equal clauses
are not all that counts.
"""

from typing import Any

from sacrebleu.metrics.bleu import BLEU

from deepnmt.text.languages import bleu_tokenizer, is_unspaced
from deepnmt.text.words import comparable


def token_tokenizer(language: str) -> str:
    """Return the name of sacrebleu's tokenisation of a language's comparable tokens."""
    return bleu_tokenizer(language) if is_unspaced(language) else "none"


class TokenBleu(BLEU):
    """BLEU that takes translations and references in tokens, and options of sacrebleu's BLEU."""

    def __init__(self, language: str, **options: Any) -> None:
        self.language = language
        # Without `force`, sacrebleu warns of tokens.
        super().__init__(force=True, tokenize=token_tokenizer(language), **options)

    def words(self, tokens: str) -> list[str]:
        """Return the words of a line of tokens that are compared."""
        return self._preprocess_segment(tokens).split()

    def _preprocess_segment(self, sent: str) -> str:
        return super()._preprocess_segment(comparable(sent, self.language))
