"""The line `BLEU4 = ...` of fairseq-generate compares characters where a language has no spaces between words.

fairseq's own scorer knows no language, and takes a clause of Chinese for a word. `--scoring sacrebleu` compares by
`--sacrebleu-tokenizer`. fairseq-score is not told the language, and compares words between spaces.
"""

from __future__ import annotations

from typing import Any

from fairseq import scoring
from fairseq.scoring import BaseScorer
from fairseq.tasks.translation import TranslationTask

from deepnmt.fairseq_patches.patch import replaces
from deepnmt.text.languages import is_unspaced
from deepnmt.text.subwords import has_bytes, join_bpe, join_bytes
from deepnmt.text.token_bleu import TokenBleu

# What fairseq makes of an unknown word of a reference, which must match none, and a character in its place.
UNKNOWN_IN_REFERENCE, CHARACTER = "<<unk>>", "\ue001"


class WordBleu(BaseScorer):  # type: ignore[misc]
    """BLEU of the words of a language, in fairseq's words.

    Args:
        language: of translations and references
        in_bytes: they have bytes in the place of rare characters
    """

    def __init__(self, language: str, in_bytes: bool) -> None:
        super().__init__(None)
        # fairseq's does not smooth.
        self.bleu, self.in_bytes = TokenBleu(language, smooth_method="none"), in_bytes

    def add_string(self, ref: str, pred: str) -> None:
        """Take a reference and its translation, in subwords or words."""
        super().add_string(self._words(ref.replace(UNKNOWN_IN_REFERENCE, CHARACTER)), self._words(pred))

    def _words(self, text: str) -> str:
        words = join_bpe(text)
        return join_bytes(words) if self.in_bytes else words

    def score(self, order: int = 4) -> float:
        """Return BLEU, from 0 to 100."""
        return float(self.bleu.corpus_score(self.pred, [self.ref]).score)

    def result_string(self, order: int = 4) -> str:
        """Return the line, as fairseq has it."""
        found = self.bleu.corpus_score(self.pred, [self.ref])
        precisions = "/".join(f"{each:2.1f}" for each in found.precisions)
        ratio = found.sys_len / found.ref_len if found.ref_len else 0.0
        lengths = f"ratio={ratio:.3f}, syslen={found.sys_len}, reflen={found.ref_len}"
        return f"BLEU4 = {found.score:2.2f}, {precisions} (BP={found.bp:.3f}, {lengths})"


@replaces(TranslationTask, "__init__", order=10, why="fairseq's scorers are not told the language of what they compare")
def note_language(stock: Any, self: Any, cfg: Any, src_dict: Any, tgt_dict: Any) -> None:
    """Make the task, and note the language of its target on the dictionary, all that a scorer is given."""
    stock(self, cfg, src_dict, tgt_dict)
    tgt_dict.language = cfg.target_lang or ""


@replaces(scoring, "build_scorer", order=10, why="the line BLEU4 takes a Chinese clause for a word")
def compare_words(stock: Any, choice: Any, tgt_dict: Any) -> Any:
    """Return the scorer of fairseq's choice; of BLEU in a language without spaces, one of characters."""
    language = getattr(tgt_dict, "language", "")
    if getattr(choice, "_name", choice) != "bleu" or not is_unspaced(language):
        return stock(choice, tgt_dict)
    return WordBleu(language, has_bytes(tgt_dict.symbols))
