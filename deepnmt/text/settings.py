"""How a data folder's text was prepared, as its preprocess.json records it."""

from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

from deepnmt.errors import UserError
from deepnmt.text.casing import Casing
from deepnmt.text.languages import language_fault
from deepnmt.text.normalisation import parse_steps
from deepnmt.text.placeholders import parse_kinds
from deepnmt.text.record import check_kinds, read_record
from deepnmt.text.units import pattern_fault

RECORD = "preprocess.json"


@dataclass(frozen=True)
class TextSettings:
    """Settings for the preparation of raw text before BPE.

    Args:
        source_lang: language of the source, whose rules tokenise it
        target_lang: language of the target
        lowercase: the tokens are lower-cased
        pretokenized: the text is already normalised and tokenised
        keep_punctuation: the punctuation is not normalised
        normalise: steps of `normalisation` with commas between them
        truecase: the first words of sentences are in true case
        separate: each language has subwords of its own
        vocabulary_threshold: number of times that a language's training text must have a type; 0: no limit
        spell_unknown: words with a type that the training text lacks are cut into characters
        byte_fallback: characters that it lacks are cut into bytes
        protect: patterns of words that stay whole
        placeholders: kinds of `placeholders` with commas between them
        segment: "jieba", which cuts Chinese into words; empty: the general rules
        units_first: protected words and placeholders are found before Moses' normalisation, not after it
        all_numbers: placeholders know numbers with all signs that languages write in them
        language_case: `lowercase` and `truecase` follow the rules of the language
        reversible: the tokens give back the unchanged text; earlier folders, which lack this, have sacremoses' tokens
            of text with punctuation normalised by Moses' rules
        glossary: the dictionaries have the marks of inline targets
    """

    source_lang: str
    target_lang: str
    lowercase: bool = False
    pretokenized: bool = False
    keep_punctuation: bool = False
    normalise: str = ""
    truecase: bool = False
    separate: bool = False
    vocabulary_threshold: int = 0
    spell_unknown: bool = False
    byte_fallback: bool = False
    protect: tuple[str, ...] = ()
    placeholders: str = ""
    segment: str = ""
    units_first: bool = False
    all_numbers: bool = False
    language_case: bool = False
    reversible: bool = True
    glossary: bool = False

    @classmethod
    def read(cls, folder: Path, name: str = RECORD) -> "TextSettings":
        """Return the settings of a data folder. Raises `UserError` if its record lacks one or has another type."""
        path = folder / name
        record = read_record(path, source_lang=str, target_lang=str, lowercase=bool, pretokenized=bool)
        return cls.from_record(record, path)

    @classmethod
    def from_record(cls, record: dict[str, Any], path: Path) -> "TextSettings":
        """Return the settings in a record that was read from `path`. Raises `UserError` if one is of another type."""
        for each in fields(cls):
            # Recorded only by the folders that use it; JSON has a list in the place of a tuple.
            if each.default is not MISSING and each.name in record:
                check_kinds(path, record, {each.name: list if each.default == () else type(each.default)})
        try:
            parse_steps(record.get("normalise", ""))
            parse_kinds(record.get("placeholders", ""))
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        for pattern in record.get("protect", ()):
            if not isinstance(pattern, str):
                raise UserError(f"{path}: 'protect' must be a list of text, but has {pattern}")
            if fault := pattern_fault(pattern):
                raise UserError(f"{path}: 'protect' {fault}")
        if record.get("segment") not in (None, "", "jieba"):
            raise UserError(f"{path}: 'segment' must be jieba, but is '{record['segment']}'")
        named = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        settings = cls(**{"reversible": False, **named, "protect": tuple(map(str, record.get("protect", ())))})
        for name in ("source_lang", "target_lang"):
            if fault := language_fault(getattr(settings, name)):
                raise UserError(f"{path}: '{name}' {fault}")
        return settings

    @property
    def languages(self) -> tuple[str, str]:
        """The source's language and the target's."""
        return self.source_lang, self.target_lang

    def case_language(self, language: str) -> str | None:
        """Return by whose rules true case is, as `Truecaser` takes it."""
        return language if self.language_case else None

    def casing(self, language: str) -> Casing:
        """Return the rules of a language's case."""
        return Casing(language if self.language_case else "")

    @property
    def limited(self) -> bool:
        """Whether words are cut by the types of the training text, too."""
        return bool(self.vocabulary_threshold or self.spell_unknown or self.byte_fallback)

    @property
    def has_marks(self) -> bool:
        """Whether tokens have marks for spaces, by which text comes back from them."""
        return self.reversible and not self.pretokenized

    def reversed(self) -> "TextSettings":
        """Return the settings of the other direction, which the same binarised folder serves."""
        return replace(self, source_lang=self.target_lang, target_lang=self.source_lang)
