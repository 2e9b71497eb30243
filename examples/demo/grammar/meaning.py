"""What a sentence means, before either language puts it into words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Optional, Union

from grammar.entries import Adjective, City, Gender, Modal, Noun, Phrase, Venue, Verb


class Determiner(Enum):
    """How a noun phrase picks out what it speaks of."""

    DEFINITE = auto()
    INDEFINITE = auto()
    DEMONSTRATIVE = auto()
    NEGATIVE = auto()
    POSSESSIVE = auto()
    COUNTED = auto()
    HOW_MANY = auto()


class Tense(Enum):
    """When it happens; NARRATIVE is a past that German tells in the preterite."""

    PRESENT = auto()
    PAST = auto()
    NARRATIVE = auto()
    PLUPERFECT = auto()
    FUTURE = auto()


class Front(Enum):
    """What a main clause opens with; a fronted OBJECT corresponds to an English passive."""

    SUBJECT = auto()
    TIME = auto()
    OBJECT = auto()


@dataclass(frozen=True)
class Pronoun:
    """A personal pronoun; `gender` is that of the German noun it stands for."""

    person: int
    plural: bool = False
    gender: Optional[Gender] = None
    human: bool = True


@dataclass(frozen=True)
class Name:
    """A first name, the same in both languages."""

    text: str
    gender: Gender


@dataclass(frozen=True)
class Relative:
    """The place in a relative clause that its head noun fills."""

    noun: Noun
    plural: bool


@dataclass(frozen=True)
class Interrogative:
    """Who or what."""

    human: bool


@dataclass(frozen=True)
class It:
    """The empty subject of the weather."""


@dataclass(frozen=True)
class NounPhrase:
    """A noun with all that agrees with it; `owner` only with POSSESSIVE, `count` with COUNTED."""

    noun: Noun
    determiner: Determiner = Determiner.DEFINITE
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    owner: Union[Pronoun, Name, Relative, None] = None
    count: int = 0
    relative: Optional[Clause] = None


Nominal = Union[NounPhrase, Pronoun, Name, Relative, Interrogative, It]


@dataclass(frozen=True)
class Clock:
    """A time of day to five minutes, on a dial of twelve hours."""

    hour: int
    minute: int


@dataclass(frozen=True)
class Date:
    """A day of the year; `month` counts from 0, `spelled` writes the day as a word."""

    day: int
    month: int
    spelled: bool


@dataclass(frozen=True)
class Weekday:
    """A day of the week from 0; `shift` -1, 0, 1 is last, this, next; `every` is a habit."""

    day: int
    shift: int = 0
    every: bool = False


@dataclass(frozen=True)
class Span:
    """Three days ago, or in three days."""

    count: int
    unit: Noun
    ago: bool


Time = Union[Phrase, Clock, Date, Weekday, Span]


@dataclass(frozen=True)
class Place:
    """Being at, or going to, a venue or a city."""

    where: Union[City, Venue]
    towards: bool = False


@dataclass(frozen=True)
class Comparison:
    """What a subject is said to be: an adjective, or more of it than `than`."""

    adjective: Adjective
    than: Optional[Nominal] = None


@dataclass(frozen=True)
class Measure:
    """A number of units, such as a price, and the adjective it may measure (drei Jahre alt)."""

    count: int
    unit: Noun
    adjective: Optional[Adjective] = None


Predicate = Union[Comparison, Measure]


@dataclass(frozen=True)
class Clause:
    """One verb and what belongs to it; `objects` fill the arguments of the verb in order."""

    verb: Verb
    subject: Optional[Nominal]
    tense: Tense
    objects: tuple[Nominal, ...] = ()
    modal: Optional[Modal] = None
    negated: bool = False
    no_longer: bool = False
    ongoing: bool = False
    times: tuple[Time, ...] = ()
    frequency: Optional[Phrase] = None
    manner: Optional[Phrase] = None
    companion: Optional[Nominal] = None
    vehicle: Optional[Noun] = None
    place: Optional[Place] = None
    predicate: Optional[Predicate] = None
    asked: Optional[Phrase] = None
    front: Front = Front.SUBJECT


@dataclass(frozen=True)
class Link:
    """A second clause and the conjunction it hangs on; a clause without subject is an infinitive."""

    conjunction: Optional[Phrase]
    clause: Clause
    first: bool = False


@dataclass(frozen=True)
class Sentence:
    """A main clause with at most one clause linked to it, told or asked."""

    main: Clause
    link: Optional[Link] = None
    question: bool = False
