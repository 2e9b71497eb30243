"""BLEU of fairseq's commands compares characters where a language has no spaces, and never bytes.

fairseq's scorers know no language. A clause of Chinese is then one word, BLEU of perfect translations 0, and with it
--patience and the best checkpoint are chance. Text with byte fallback is compared in bytes, and marks of spaces are
words. `--scoring sacrebleu` compares by `--sacrebleu-tokenizer`; fairseq-score is not told the language.
"""

import logging
from typing import Any

import sacrebleu
from fairseq import scoring, utils
from fairseq.scoring import BaseScorer
from fairseq.tasks.translation import TranslationTask

from deepnmt.fairseq_patches.patch import replaces
from deepnmt.text.languages import is_unspaced
from deepnmt.text.subwords import has_bytes, join_bpe, join_bytes
from deepnmt.text.token_bleu import TokenBleu
from deepnmt.text.units import ATTACHED, SPACED
from deepnmt.text.words import comparable

logger = logging.getLogger(__name__)
JOINED = "subword_nmt"
# Unknown words of translations and of references: they must not match, and count as one word or character.
WORDS, CHARACTERS = ("UNKNOWNTOKENINHYP", "UNKNOWNTOKENINREF"), ("\ue000", "\ue001")
# fairseq's form of an unknown word of a reference, which must match no word, and a character in its place.
UNKNOWN_IN_REFERENCE, CHARACTER = "<<unk>>", "\ue001"


@replaces(
    TranslationTask, "_inference_with_bleu", order=10, why="--eval-bleu takes a Chinese clause for a word (issue 4689)"
)
def compare_words(stock: Any, self: Any, generator: Any, sample: dict[str, Any], model: Any) -> Any:
    """Return sacrebleu's result for a batch: fairseq's own for words between spaces, without bytes and marks."""
    language, in_bytes = getattr(self.cfg, "target_lang", None) or "", has_bytes(self.tgt_dict.symbols)
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


class WordBleu(BaseScorer):  # type: ignore[misc]
    """BLEU of the words of a language, in fairseq's words.

    Args:
        language: language of translations and references
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


@replaces(TranslationTask, "__init__", order=10, why="fairseq's scorers do not know the language of the texts")
def note_language(stock: Any, self: Any, cfg: Any, src_dict: Any, tgt_dict: Any) -> None:
    """Make the task, and note the language of its target on the dictionary, all that a scorer is given."""
    stock(self, cfg, src_dict, tgt_dict)
    tgt_dict.language = getattr(cfg, "target_lang", None) or ""  # a kind of this task has languages of its own


@replaces(scoring, "build_scorer", order=10, why="the line BLEU4 takes a Chinese clause for a word")
def score_words(stock: Any, choice: Any, tgt_dict: Any) -> Any:
    """Return the scorer of fairseq's choice; of BLEU in a language without spaces, one of characters."""
    language = getattr(tgt_dict, "language", "")
    if getattr(choice, "_name", choice) != "bleu" or not is_unspaced(language):
        return stock(choice, tgt_dict)
    return WordBleu(language, has_bytes(tgt_dict.symbols))
