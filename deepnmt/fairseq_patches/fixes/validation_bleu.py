"""`--eval-bleu` compares the words of the target language, in characters and not in bytes.

fairseq hands its validation to sacrebleu without a language. A clause of Chinese is then one word, BLEU of perfect
translations 0, and with it --patience and the best checkpoint are chance. Text with byte fallback is compared in bytes,
and marks of spaces are words.
"""

from __future__ import annotations

import logging
from typing import Any

import sacrebleu
from fairseq import utils
from fairseq.tasks.translation import TranslationTask

from deepnmt.fairseq_patches.patch import replaces
from deepnmt.text.languages import is_unspaced
from deepnmt.text.subwords import has_bytes, join_bytes
from deepnmt.text.token_bleu import TokenBleu
from deepnmt.text.units import ATTACHED, SPACED
from deepnmt.text.words import comparable

logger = logging.getLogger(__name__)
JOINED = "subword_nmt"
# Unknown words of translations and of references: they must not match, and count as one word or character.
WORDS, CHARACTERS = ("UNKNOWNTOKENINHYP", "UNKNOWNTOKENINREF"), ("\ue000", "\ue001")


@replaces(
    TranslationTask, "_inference_with_bleu", order=10, why="--eval-bleu takes a Chinese clause for a word (issue 4689)"
)
def compare_words(stock: Any, self: Any, generator: Any, sample: dict[str, Any], model: Any) -> Any:
    """Return sacrebleu's result for a batch: fairseq's own for words between spaces, without bytes and marks."""
    language, in_bytes = self.cfg.target_lang or "", has_bytes(self.tgt_dict.symbols)
    unspaced, marks = is_unspaced(language), {ATTACHED, SPACED}.intersection(self.tgt_dict.symbols)
    if not unspaced and not in_bytes and not marks:
        return stock(self, generator, sample, model)

    def text(tokens: Any, unknown: str) -> str:
        # Characters are compared in whole words, and bytes are joined there.
        line = self.tgt_dict.string(tokens.int().cpu(), self.cfg.eval_bleu_remove_bpe or JOINED, unk_string=unknown)
        line = join_bytes(line) if in_bytes else line
        line = comparable(line, language) if marks and not unspaced else line
        return str(self.tokenizer.decode(line)) if self.tokenizer else line

    found = self.inference_step(generator, [model], sample, prefix_tokens=None)
    unknown = CHARACTERS if unspaced else WORDS
    translations = [text(each[0]["tokens"], unknown[0]) for each in found]
    references = [text(utils.strip_pad(each, self.tgt_dict.pad()), unknown[1]) for each in sample["target"]]
    if self.cfg.eval_bleu_print_samples:
        logger.info(f"example hypothesis: {translations[0]}")
        logger.info(f"example reference: {references[0]}")
    if unspaced:
        return TokenBleu(language).corpus_score(translations, [references])
    options = {"tokenize": "none"} if self.cfg.eval_tokenized_bleu else {}
    return sacrebleu.corpus_bleu(translations, [references], **options)
