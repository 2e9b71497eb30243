"""What the lexicon knows about a word, and the notation its tables are written in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Gender(Enum):
    """Grammatical gender of a German noun."""

    MASCULINE = "m"
    FEMININE = "f"
    NEUTER = "n"


class Case(Enum):
    """Grammatical case, in the order of the declension tables."""

    NOMINATIVE = 0
    ACCUSATIVE = 1
    DATIVE = 2
    GENITIVE = 3


@dataclass(frozen=True)
class Noun:
    """A noun in both languages; `classes` say which verbs and adjectives suit it."""

    german: str
    gender: Gender
    genitive: str
    plural: str
    english: str
    english_plural: str
    classes: tuple[str, ...]

    @property
    def is_person(self) -> bool:
        """True if English refers to the noun by who, he or she."""
        return "person" in self.classes


@dataclass(frozen=True)
class Adjective:
    """An adjective; `stem` takes the German endings (teuer, but teur-e)."""

    german: str
    stem: str
    english: str
    german_comparative: str
    english_comparative: str
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Argument:
    """An object a verb asks for: its case, prepositions, and the classes of noun that fit."""

    case: Case
    german_preposition: str
    english_preposition: str
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Verb:
    """Principal parts of a verb in both languages; `prefix` is the separable one."""

    prefix: str
    infinitive: str
    third_person: str
    preterite: str
    participle: str
    english: str
    english_past: str
    english_participle: str
    particle: str
    arguments: tuple[Argument, ...]
    tags: tuple[str, ...]

    @property
    def lemma(self) -> str:
        """The German dictionary form, such as anrufen."""
        return self.prefix + self.infinitive

    @property
    def auxiliary(self) -> str:
        """The auxiliary of the German perfect: haben or sein."""
        return "sein" if "sein" in self.tags else "haben"


@dataclass(frozen=True)
class Modal:
    """A modal verb; in English `verb` is an auxiliary, be, or a full verb, followed by `rest`."""

    german: str
    verb: str
    past: str
    rest: str


@dataclass(frozen=True)
class City:
    """A place name, which has no article in either language."""

    german: str
    english: str


@dataclass(frozen=True)
class Venue:
    """A place with an article, its prepositions, and the tags of what people do there."""

    noun: Noun
    german_at: str
    english_at: str
    german_to: str
    english_to: str
    uses: tuple[str, ...]


@dataclass(frozen=True)
class Phrase:
    """An adverbial that is the same in every sentence."""

    german: str
    english: str


_INSEPARABLE = ("be", "emp", "ent", "er", "ge", "miss", "ver", "zer")
_VOWELS = "aeiou"


def rows(table: str) -> list[list[str]]:
    """Split a lexicon table into stripped cells: one entry per line, cells separated by |."""
    return [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]


def parse_noun(cells: list[str]) -> Noun:
    """Read 'Mann m | Mannes | Männer | man/men | person'; a regular English plural is left out."""
    head, genitive, plural, english, classes = cells
    german, gender = head.split()
    singular, _, english_plural = english.partition("/")
    return Noun(
        german,
        Gender(gender),
        genitive,
        plural,
        singular,
        english_plural or _with_s(singular),
        tuple(classes.split()),
    )


def parse_adjective(cells: list[str]) -> Adjective:
    """Read 'teuer/teur | expensive | teurer | more expensive | goods'."""
    german, english, comparative, english_comparative, classes = cells
    word, _, stem = german.partition("/")
    return Adjective(word, stem or word, english, comparative, english_comparative, tuple(classes.split()))


def parse_verb(cells: list[str]) -> Verb:
    """Read 'an+rufen ruft rief gerufen | call | acc=person | tags'; regular parts are left out."""
    german, english, arguments, tags = cells
    lemma, *parts = german.split()
    prefix, _, infinitive = lemma.rpartition("+")
    third, preterite, participle = parts or _weak_parts(infinitive)
    main, _, particle = english.partition("+")
    base, *english_parts = main.split()
    past, english_participle = english_parts or [_with_ed(base)] * 2
    return Verb(
        prefix,
        infinitive,
        third,
        preterite,
        prefix + participle,
        base,
        past,
        english_participle,
        particle.strip(),
        tuple(_parse_argument(text) for text in arguments.split()),
        tuple(tags.split()),
    )


def _parse_argument(text: str) -> Argument:
    """Read 'dat/to=person' or 'auf+acc/for=person,transport'."""
    role, classes = text.split("=")
    german, _, english_preposition = role.partition("/")
    preposition, _, case = german.rpartition("+")
    cases = {"acc": Case.ACCUSATIVE, "dat": Case.DATIVE}
    return Argument(cases[case], preposition, english_preposition, tuple(classes.split(",")))


def _weak_parts(infinitive: str) -> list[str]:
    """Third person, preterite and participle of a regular German verb."""
    stem = infinitive[:-1] if infinitive.endswith("ern") else infinitive[:-2]
    linked = stem + "e" if re.search(r"([td]|[^aeiouhlrmn][mn])$", stem) else stem
    takes_ge = not infinitive.endswith("ieren") and not stem.startswith(_INSEPARABLE)
    return [linked + "t", linked + "te", ("ge" if takes_ge else "") + linked + "t"]


def _with_s(word: str) -> str:
    if re.search(r"(s|sh|ch|x)$", word):
        return word + "es"
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + "s"


def _with_ed(base: str) -> str:
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in _VOWELS:
        return base[:-1] + "ied"
    return base + "ed"
