"""The steps between raw text and subwords, and back: the same code for training data and for translating.

    raw line -> clean -> normalised -> Moses tokens -> lower case, or true case -> tags for units -> subwords
    subwords -> tokens -> units for tags -> sentence case -> detokenised text

`TextSettings` has the steps of a corpus. The tokens must be cut as in training: fairseq's own Moses tokeniser splits
hyphens where this one does not, which alone changes 35 of 1,000 translations.
"""

import re
from collections.abc import Callable, Container, Mapping
from functools import cached_property
from pathlib import Path

from deepnmt.errors import UserError
from deepnmt.text.chinese import jieba_cutter, joined, segmenter
from deepnmt.text.cutting import Cutter
from deepnmt.text.glossary import Glossary
from deepnmt.text.inline_targets import cut_inline, without_marks
from deepnmt.text.languages import is_chinese
from deepnmt.text.lines import clean
from deepnmt.text.marked_runs import MarkedRuns
from deepnmt.text.moses import Step, ascii_punctuation, detokeniser, punctuation_normaliser, tokeniser
from deepnmt.text.normalisation import normaliser, parse_steps
from deepnmt.text.placeholders import EARLIER_NUMBERS, LATE_PATTERNS, PATTERNS, Placeholders, parse_kinds
from deepnmt.text.settings import TextSettings
from deepnmt.text.signs import UNSPACED_LETTERS
from deepnmt.text.spacing import Spacing
from deepnmt.text.subwords import CODES, Subwords, join_bpe, join_bytes, subword_files, within_types
from deepnmt.text.terms import read_terms, terms_from, with_first_words
from deepnmt.text.truecase import Truecaser, model_name, sentence_case
from deepnmt.text.units import Units, shown, shown_words

# A longer one is no word, and the time of BPE grows with the square of its length.
LONGEST_WORD = 1_000
LONG_WORD = re.compile(rf"\S{{{LONGEST_WORD + 1}}}")


def has_long_word(line: str) -> bool:
    """Return whether a word of a line is too long to be one."""
    return len(line) > LONGEST_WORD and bool(LONG_WORD.search(line))


def whole_units(settings: TextSettings) -> Units:
    """Return the words that the steps leave unchanged: protected words, and words with placeholders."""
    return Units([*settings.protect, *(each.pattern for each in placeholders_of(settings).patterns.values())])


def placeholders_of(settings: TextSettings) -> Placeholders:
    """Return the replacement of units for data with these settings."""
    patterns = PATTERNS if settings.units_first else LATE_PATTERNS
    earlier = {} if settings.all_numbers else {"numbers": EARLIER_NUMBERS}
    return Placeholders(parse_kinds(settings.placeholders), {**patterns, **earlier})


class Tokenizer:
    """Turns clean lines of one language into tokens with single spaces between them."""

    def __init__(self, settings: TextSettings, language: str) -> None:
        self.settings = settings
        self._lower_case = settings.casing(language).lower
        self._placeholders, self._units = placeholders_of(settings), whole_units(settings)
        # Before units are hidden, and after.
        self._first, self._then = _normalisers(settings, language)
        segment = bool(settings.segment) and is_chinese(language)
        self._cut: Callable[[str], tuple[list[str], list[bool]]] | None = None
        self._runs: Step | None = None
        if settings.has_marks:
            self._cut = jieba_cutter() if segment else Cutter(language)
            self._spacing = Spacing(language, segment)
            self._runs = None if segment else MarkedRuns(language)
        else:
            self._then.append(segmenter() if segment else tokeniser(language))
        # As for most data: nothing else is done to a line.
        self._runs_alone = not (settings.pretokenized or self._first or self._then or self._units.patterns)

    def __call__(self, text: str) -> str:
        """Tokenise one clean line."""
        if self._runs and self._runs_alone:
            text = self._runs(text)
        elif not self.settings.pretokenized:
            for step in self._first:
                text = step(text)
            text, units, mark = self._units.hide(text)
            for step in self._then:
                text = step(text)
            if self._cut is None:
                text = shown(text, units, mark) if units else text
            elif self._runs and not units:
                text = self._runs(" ".join(text.split()))
            else:
                text = self._marked(text, units, mark)
        # After tokenisation, which tells abbreviations apart by their case.
        return self._lower(text) if self.settings.lowercase else text

    def _marked(self, text: str, units: list[str], mark: str) -> str:
        """Return the tokens of a line whose units are hidden."""
        if not text or self._cut is None:
            return ""
        words, spaced = self._cut(text)
        if units:
            letters = UNSPACED_LETTERS if self.settings.all_numbers else ""
            words, spaced = shown_words(words, spaced, units, mark, letters)
        return self._spacing.marked(words, spaced)

    def _lower(self, tokens: str) -> str:
        """Return tokens in lower case, except the ones that replace a tag unchanged."""
        if not self.settings.placeholders:
            return self._lower_case(tokens)
        return " ".join(
            token if token in self._placeholders else self._lower_case(token) for token in tokens.split(" ")
        )


def _normalisers(settings: TextSettings, language: str) -> tuple[list[Step], list[Step]]:
    """Return the steps that normalise a line before its units are hidden, and the steps after that."""
    steps = parse_steps(settings.normalise)
    if settings.reversible and "punctuation" not in steps:
        return [normaliser(steps, language)] if steps else [], []
    if not settings.units_first:
        # One of the steps does it, too.
        keeps = settings.keep_punctuation or "punctuation" in steps
        return [normaliser(steps, language), *([] if keeps else [punctuation_normaliser(language)])], []
    # Moses' normalisation sets brackets apart, and changes dashes and quotes within units.
    signs, keeps = "punctuation" in steps, settings.keep_punctuation
    first = [normaliser([step for step in steps if step != "punctuation"], language)]
    return [*first, *([ascii_punctuation()] if signs else [])], [] if keeps else [punctuation_normaliser(language)]


class Detokenizer:
    """Turns tokens of one language into text as people write it.

    Args:
        truecase: the tokens are in true case, and sentences begin with a capital
        segment: tool that cut Chinese into words; empty: no tool
        units: words that get no capital
        case_language: language whose rules give sentences a capital, as for `sentence_case`
        reversible: the tokens have marks for spaces
    """

    def __init__(
        self,
        language: str,
        truecase: bool = False,
        segment: str = "",
        units: Container[str] = (),
        case_language: str | None = None,
        reversible: bool = True,
    ) -> None:
        self._case_language = case_language
        self._truecase, self._units = truecase, units
        segmented = bool(segment) and is_chinese(language)
        self._detokenize: Step
        if reversible:
            self._detokenize = Spacing(language, segmented).text
        else:
            self._detokenize = joined if segmented else detokeniser(language)

    @classmethod
    def of(cls, settings: TextSettings) -> "Detokenizer":
        """Return the detokeniser for the target of data with these settings."""
        language, units = settings.target_lang, whole_units(settings)
        case = settings.case_language(language)
        return cls(language, settings.truecase, settings.segment, units, case, settings.has_marks)

    def __call__(self, tokens: str) -> str:
        """Detokenise one line."""
        return self._detokenize(sentence_case(tokens, self._units, self._case_language) if self._truecase else tokens)


def tokens_of(subwords: str, settings: TextSettings, source: str = "") -> str:
    """Return the tokens of a line of subwords, as `restored` makes them."""
    return restored(join_bpe(subwords), settings, source)


def restored(tokens: str, settings: TextSettings, source: str = "") -> str:
    """Return joined tokens with characters in place of bytes, and units of the source's tokens in place of tags."""
    tokens = without_marks(tokens)
    if settings.byte_fallback:
        # First: a tag that the training text has too rarely is in bytes itself.
        tokens = join_bytes(tokens)
    return placeholders_of(settings).filled(tokens, source) if settings.placeholders else tokens


def text_files(settings: TextSettings) -> tuple[str, ...]:
    """Return the names of the files in a folder, beside dictionaries and record, that turn text into subwords."""
    return (*subword_files(settings), *(model_name(language) for language in settings.languages if settings.truecase))


class TextPipeline:
    """The way from raw text of the source to a model's input, and from its output to text of the target.

    The folder of the codes has all other files that the settings of the model's training data need.
    """

    def __init__(self, settings: TextSettings, codes: Path) -> None:
        self.settings = settings
        self.codes = codes

    @classmethod
    def read(cls, folder: Path) -> "TextPipeline":
        """Return the pipeline of a data folder. Raises `UserError` if its record or its codes are faulty."""
        return cls.of(TextSettings.read(folder), folder / CODES)

    @classmethod
    def of(cls, settings: TextSettings, codes: Path) -> "TextPipeline":
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
        language = self.settings.source_lang
        return Truecaser(
            self.codes.parent / model_name(language), whole_units(self.settings), self.settings.case_language(language)
        )

    @cached_property
    def _placeholders(self) -> Placeholders:
        return placeholders_of(self.settings)

    @cached_property
    def _subwords(self) -> Subwords:
        return Subwords(self.codes.parent, self.settings, self.settings.source_lang)

    @cached_property
    def _target_subwords(self) -> Subwords:
        return Subwords(self.codes.parent, self.settings, self.settings.target_lang)

    @cached_property
    def _detokenizer(self) -> Detokenizer:
        return Detokenizer.of(self.settings)

    def encode(self, line: str) -> str:
        """Return the subwords of a raw line of the source; empty for a line of nothing but white space."""
        return self.segment(self.tokenize(clean(line)))

    def tokenize(self, text: str) -> str:
        """Return the tokens of a clean line of the source."""
        tokens = self._tokenizer(text)
        return self._truecaser(tokens) if self.settings.truecase else tokens

    def segment(self, tokens: str, types: Container[str] = ()) -> str:
        """Return the subwords of a line of tokens; a word should have at most `LONGEST_WORD` characters.

        The source's tokens may have inline targets, which are cut by the `types` of the source's dictionary.
        """
        tokens = self._placeholders.tagged(tokens) if self.settings.placeholders else tokens
        # Text has no marks.
        return cut_inline(tokens, self._subwords, lambda words: within_types(self._target_subwords(words), types))

    def glossary(self, terms: Path | Mapping[str, str], types: Container[str]) -> Glossary:
        """Return a glossary for lines of `tokenize`.

        Raises `UserError` if the data have no inline targets, or an entry is faulty.

        Args:
            terms: translations by their terms, or a file that has both, with a tab between them, on each line
        """
        if not self.settings.glossary:
            made = "deepnmt preprocess --glossary-training"
            raise UserError(f"--glossary needs a model trained with inline targets ({made})")
        sides = self._tokenizer, Tokenizer(self.settings, self.settings.target_lang)
        if isinstance(terms, Path):
            name = str(terms)
            found = read_terms(terms, *sides, "--glossary")
        else:
            name = "glossary"
            found = terms_from(((name, pair) for pair in terms.items()), *sides)
        for words, term in found.items():
            pieces = within_types(self._target_subwords(term.translation), types).split()
            if unknown := next((piece for piece in pieces if piece not in types), None):
                raise UserError(f"{name}: '{term.translation}' must be of types of the dictionary, but has '{unknown}'")
            for side in (" ".join(words), term.translation) if self.settings.placeholders else ():
                if self._placeholders.tagged(side) != side:
                    kinds = self.settings.placeholders
                    raise UserError(f"{name}: '{side}' has {kinds} of --placeholders, which come from the source")
        known = with_first_words(found, self._truecaser) if self.settings.truecase else found
        return Glossary(known, self.settings)

    def decode(self, subwords: str, source: str = "") -> str:
        """Return the text of a line of subwords of the target; units of the source's tokens take the place of tags."""
        return self._detokenizer(tokens_of(subwords, self.settings, source))
