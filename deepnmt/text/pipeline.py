"""The steps between raw text and subwords, and the way back: one code for training data and for translating.

    raw line -> clean -> normalised -> Moses tokens -> lower case, or true case -> BPE
    BPE -> tokens -> sentence case -> detokenised text

Which steps a corpus had is in its `TextSettings`. The tokens must be those of training: fairseq's own Moses tokeniser
splits hyphens where this one does not, which alone changes 35 of 1,000 translations.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from deepnmt.text.lines import clean
from deepnmt.text.normalisation import normaliser, parse_steps
from deepnmt.text.settings import TextSettings
from deepnmt.text.subwords import CODES, Subwords, join_bpe, join_bytes, subword_files
from deepnmt.text.truecase import Truecaser, model_name, sentence_case

# A longer one is no word, and the time of BPE grows with the square of its length.
LONGEST_WORD = 1_000
LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1}}}")


class Tokenizer:
    """Turns clean lines of one language into tokens with single spaces between them.

    Args:
        settings: the steps to do
        language: by whose rules
    """

    def __init__(self, settings: TextSettings, language: str) -> None:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        self.settings = settings
        steps = parse_steps(settings.normalise)
        self._normalise = normaliser(steps, language)
        # One of the steps does it, too.
        self._keeps_punctuation = settings.keep_punctuation or "punctuation" in steps
        self._normalize = MosesPunctNormalizer(lang=language).normalize
        self._tokenize = MosesTokenizer(lang=language).tokenize

    def __call__(self, text: str) -> str:
        """Tokenise one clean line."""
        if not self.settings.pretokenized:
            text = self._normalise(text)
            if not self._keeps_punctuation:
                text = self._normalize(text)
            text = self._tokenize(text, return_str=True)
        # After tokenisation, which tells abbreviations apart by their case.
        return text.lower() if self.settings.lowercase else text


class Detokenizer:
    """Turns tokens of one language into text as people write it.

    Args:
        language: by whose rules
        truecase: the tokens are in true case, and sentences begin with a capital
    """

    def __init__(self, language: str, truecase: bool = False) -> None:
        from sacremoses import MosesDetokenizer

        self._truecase = truecase
        self._detokenize = MosesDetokenizer(lang=language).detokenize

    def __call__(self, tokens: str) -> str:
        """Detokenise one line."""
        return str(self._detokenize((sentence_case(tokens) if self._truecase else tokens).split()))


def tokens_of(subwords: str, settings: TextSettings) -> str:
    """Return the tokens of a line of subwords, with characters in the place of bytes."""
    return restored(join_bpe(subwords), settings)


def restored(tokens: str, settings: TextSettings) -> str:
    """Return joined tokens with characters in the place of bytes, where the settings have these."""
    return join_bytes(tokens) if settings.byte_fallback else tokens


def text_files(settings: TextSettings) -> tuple[str, ...]:
    """Return the names of the files in a folder, beside dictionaries and record, that turn text into subwords."""
    return (*subword_files(settings), *(model_name(language) for language in settings.languages if settings.truecase))


class TextPipeline:
    """Raw text of the source to what a model reads, and what it writes to text of the target.

    Args:
        settings: of the data that the model was trained on
        codes: in whose folder they are, with all other files that the settings ask for
    """

    def __init__(self, settings: TextSettings, codes: Path) -> None:
        self.settings = settings
        self.codes = codes

    @classmethod
    def read(cls, folder: Path) -> TextPipeline:
        """Return the pipeline of a data folder. Raises `UserError` if its record or its codes are faulty."""
        return cls.of(TextSettings.read(folder), folder / CODES)

    @classmethod
    def of(cls, settings: TextSettings, codes: Path) -> TextPipeline:
        """Return the pipeline of settings and codes. Raises `UserError` if these or a model of true case are faulty."""
        pipeline = cls(settings, codes)
        pipeline._subwords  # noqa: B018
        if settings.truecase:
            pipeline._truecaser  # noqa: B018
        return pipeline

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self.settings, self.settings.source_lang)

    @cached_property
    def _truecaser(self) -> Truecaser:
        return Truecaser(self.codes.parent / model_name(self.settings.source_lang))

    @cached_property
    def _subwords(self) -> Subwords:
        return Subwords(self.codes.parent, self.settings, self.settings.source_lang)

    @cached_property
    def _detokenizer(self) -> Detokenizer:
        return Detokenizer(self.settings.target_lang, self.settings.truecase)

    def encode(self, line: str) -> str:
        """Return the subwords of a raw line of the source; empty for a line of nothing but white space."""
        return self.segment(self.tokenize(clean(line)))

    def tokenize(self, text: str) -> str:
        """Return the tokens of a clean line of the source."""
        tokens = self._tokenizer(text)
        return self._truecaser(tokens) if self.settings.truecase else tokens

    def segment(self, tokens: str) -> str:
        """Return the subwords of a line of tokens; a word should have at most `LONGEST_WORD` characters."""
        return self._subwords(tokens)

    def decode(self, subwords: str) -> str:
        """Return the text of a line of subwords of the target."""
        return self._detokenizer(tokens_of(subwords, self.settings))
