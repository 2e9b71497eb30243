"""Draw noun phrases, times and places that suit the verb they stand with."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random
from typing import Optional, TypeVar

from grammar import phrases
from grammar.entries import Adjective, Argument, Case, Gender, Noun, Phrase
from grammar.lexicon import ADJECTIVES, NOUN, NOUNS
from grammar.meaning import (
    Clock,
    Date,
    Determiner,
    Name,
    Nominal,
    NounPhrase,
    Place,
    Pronoun,
    Relative,
    Span,
    Time,
    Weekday,
)

Item = TypeVar("Item")

_SPEAKERS = (Pronoun(1), Pronoun(1), Pronoun(2), Pronoun(1, plural=True))
_THEY = Pronoun(3, plural=True)
_OTHERS = (Pronoun(3, gender=Gender.MASCULINE), Pronoun(3, gender=Gender.FEMININE), _THEY)
_FAR = ("letzte", "nächste")
_SPANS = tuple(noun for noun in NOUNS if "span" in noun.classes)
# What is bought or written by the dozen, so that larger numbers make sense.
_MANY = ("Blume", "Postkarte", "Buch", "Brief", "Geschenk", "Gedicht")


_STATION = [venue.noun.german for venue in phrases.VENUES].index("Bahnhof")


def chance(rng: Random, probability: float) -> bool:
    """True with the given probability."""
    return rng.random() < probability


def weighted(rng: Random, *choices: tuple[float, Item]) -> Item:
    """One of the items, by weight."""
    return rng.choices([item for _, item in choices], [weight for weight, _ in choices])[0]


def fits(noun: Noun, classes: tuple[str, ...]) -> bool:
    """True if a noun is of one of the classes, or is itself named among them."""
    return noun.english in classes or any(name in classes for name in noun.classes)


@cache
def nouns_of(*classes: str) -> tuple[Noun, ...]:
    """All nouns of the given classes."""
    return tuple(noun for noun in NOUNS if fits(noun, classes))


def person(rng: Random, pronouns: float = 0.2) -> Nominal:
    """Somebody who acts."""
    if chance(rng, pronouns):
        return rng.choice(_SPEAKERS + _OTHERS)
    kind = weighted(rng, (0.55, "stranger"), (0.2, "kin"), (0.25, "name"))
    if kind == "name":
        return name(rng)
    return relative_of(rng) if kind == "kin" else stranger(rng)


def name(rng: Random) -> Name:
    """A man or woman by name."""
    if chance(rng, 0.5):
        return Name(rng.choice(phrases.FEMALE_NAMES), Gender.FEMININE)
    return Name(rng.choice(phrases.MALE_NAMES), Gender.MASCULINE)


def relative_of(rng: Random, owner: Optional[Nominal] = None) -> NounPhrase:
    """A relative or friend of `owner`, or of the speakers or somebody named."""
    noun = rng.choice([noun for noun in nouns_of("kin") if not _unlikely(noun, owner)])
    plural = "only" not in noun.classes and chance(rng, 0.15)
    whose = as_pronoun(owner) if owner and chance(rng, 0.7) else None
    if whose is None:
        whose = rng.choice(_SPEAKERS) if chance(rng, 0.7) else None
    return NounPhrase(noun, Determiner.POSSESSIVE, plural, describe(rng, noun, 0.1), whose or name(rng))


def _unlikely(kin: Noun, owner: Optional[Nominal]) -> bool:
    """Boys and girls have no daughters or bosses, and grandparents' uncles are long dead."""
    if not isinstance(owner, (NounPhrase, Relative)):
        return False
    if "young" in owner.noun.classes:
        return fits(kin, ("work", "offspring"))
    return "elder" in owner.noun.classes and fits(kin, ("work", "elder"))


def stranger(rng: Random) -> NounPhrase:
    """Somebody known by age or profession."""
    noun = rng.choice(nouns_of("grown", "young"))
    determiner = weighted(
        rng,
        (0.72, Determiner.DEFINITE),
        (0.12, Determiner.INDEFINITE),
        (0.1, Determiner.DEMONSTRATIVE),
        (0.06, Determiner.COUNTED),
    )
    counted = determiner is Determiner.COUNTED
    # 'Lehrer haben ...' would speak of teachers in general.
    plural = counted or (determiner is not Determiner.INDEFINITE and chance(rng, 0.22))
    count = rng.randint(2, 6) if counted else 0
    return NounPhrase(noun, determiner, plural, describe(rng, noun, 0.3), count=count)


def describe(rng: Random, noun: Noun, probability: float) -> tuple[Adjective, ...]:
    """No or one adjective that suits the noun."""
    if not chance(rng, probability):
        return ()
    suitable = qualities(noun)
    return (rng.choice(suitable),) if suitable else ()


@cache
def qualities(noun: Noun) -> tuple[Adjective, ...]:
    """All adjectives that suit a noun."""
    return tuple(entry for entry in ADJECTIVES if fits(noun, entry.classes))


def object_for(rng: Random, argument: Argument, subject: Optional[Nominal]) -> Nominal:
    """Something or somebody to fill an argument; never the subject itself."""
    nouns = nouns_of(*argument.classes)
    if is_young(subject):
        nouns = tuple(noun for noun in nouns if "adult" not in noun.classes)
    noun = rng.choice(nouns)
    if fits(noun, ("person",)):
        only_kin = "kin" in argument.classes
        return _person_beside(rng, subject, only_kin, argument.case is Case.DATIVE)
    return thing(rng, noun, subject)


def is_young(nominal: Optional[Nominal]) -> bool:
    """True for boys and girls, who neither drive cars nor drink wine."""
    return isinstance(nominal, (NounPhrase, Relative)) and "young" in nominal.noun.classes


def _person_beside(rng: Random, subject: Optional[Nominal], only_kin: bool, is_dative: bool) -> Nominal:
    while True:
        somebody = relative_of(rng, subject) if only_kin or chance(rng, 0.3) else person(rng, 0.12)
        # Without context the accusative 'sie' must be one thing: she.
        unclear = somebody == _THEY and not is_dative
        if not unclear and not _same_people(somebody, subject):
            return somebody


def _same_people(one: Nominal, other: Optional[Nominal]) -> bool:
    if isinstance(one, Pronoun) and isinstance(other, Pronoun):
        return one.person == other.person
    if isinstance(one, NounPhrase) and isinstance(other, NounPhrase):
        return one.noun == other.noun or (one.owner is not None and one.owner == other.owner)
    if isinstance(one, NounPhrase) and isinstance(one.owner, Name):
        return one.owner == other
    return one == other


def thing(rng: Random, noun: Noun, owner: Optional[Nominal]) -> NounPhrase:
    """A thing, perhaps one that belongs to `owner`."""
    if "transport" in noun.classes:
        return NounPhrase(noun)
    mass = "mass" in noun.classes
    belongs = any(name in noun.classes for name in ("small", "clothes", "vehicle", "luggage"))
    determiner = weighted(
        rng,
        (0.4, Determiner.DEFINITE),
        (0.25, Determiner.INDEFINITE),
        (0.0 if mass else 0.1, Determiner.DEMONSTRATIVE),
        (0.3 if belongs else 0.04, Determiner.POSSESSIVE),
        (0.0 if mass else 0.08, Determiner.COUNTED),
    )
    count = 0
    if determiner is Determiner.COUNTED:
        count = rng.randint(2, 40) if noun.german in _MANY and chance(rng, 0.5) else rng.randint(2, 5)
    whose: Optional[Nominal] = None
    if determiner is Determiner.POSSESSIVE:
        whose = as_pronoun(owner) if chance(rng, 0.7) else rng.choice(_SPEAKERS)
        whose = whose or name(rng)
    plural = bool(count) or (not mass and chance(rng, 0.2))
    assert whose is None or isinstance(whose, (Pronoun, Name))
    return NounPhrase(noun, determiner, plural, describe(rng, noun, 0.35), whose, count)


def known(phrase: NounPhrase) -> NounPhrase:
    """The same with a definite article."""
    return replace(phrase, determiner=Determiner.DEFINITE, owner=None, count=0)


def as_pronoun(nominal: Optional[Nominal]) -> Optional[Pronoun]:
    """The pronoun that takes up a nominal; none for children, whom English calls he or she."""
    if isinstance(nominal, Pronoun):
        return nominal
    if isinstance(nominal, Name):
        return Pronoun(3, gender=nominal.gender)
    if not isinstance(nominal, NounPhrase):
        return None
    if nominal.plural:
        return Pronoun(3, plural=True)
    noun = nominal.noun
    if noun.is_person and noun.gender is Gender.NEUTER:
        return None
    return Pronoun(3, gender=noun.gender, human=noun.is_person)


def past_time(rng: Random, tags: tuple[str, ...] = ()) -> tuple[Time, ...]:
    """When something happened, as its verb allows: brief things are not dated by the month."""
    return _some_time(rng, phrases.PAST_TIMES, True, tags)


def future_time(rng: Random, tags: tuple[str, ...] = ()) -> tuple[Time, ...]:
    """When something will happen, as its verb allows: houses are not built in a day."""
    return _some_time(rng, phrases.FUTURE_TIMES, False, tags)


def habitual_time(rng: Random) -> tuple[Time, ...]:
    """How regularly something happens."""
    if chance(rng, 0.4):
        return _with_clock(rng, Weekday(rng.randrange(7), every=True))
    return _with_clock(rng, rng.choice(phrases.HABITUAL_TIMES))


def clock_time(rng: Random) -> Clock:
    """A time of day."""
    minute = weighted(rng, (3, 0), (3, 30), (2, 15), (2, 45), (4, rng.randrange(0, 60, 5)))
    return Clock(rng.randint(1, 12), minute)


def place(rng: Random, kinds: tuple[str, ...], towards: bool) -> Place:
    """A venue or a city."""
    if "city" in kinds and ("venue" not in kinds or chance(rng, 0.6)):
        return Place(rng.choice(phrases.CITIES), towards)
    return Place(rng.choice(phrases.VENUES), towards)


def place_for(rng: Random, activities: tuple[str, ...]) -> Optional[Place]:
    """A venue for one of the activities."""
    if "transport" in activities:
        return Place(phrases.VENUES[_STATION])
    suitable = [venue for venue in phrases.VENUES if any(use in activities for use in venue.uses)]
    return Place(rng.choice(suitable)) if suitable else None


def _some_time(rng: Random, fixed: tuple[Phrase, ...], ago: bool, tags: tuple[str, ...]) -> tuple[Time, ...]:
    if "long" in tags:
        return (rng.choice([phrase for phrase in fixed if phrase.german.startswith(_FAR)]),)
    brief = "brief" in tags
    long_ago = 0 if brief else 1
    kind = weighted(
        rng,
        (4, "fixed"),
        (2, "weekday"),
        (1.5 * long_ago, "date"),
        (1 * long_ago, "span"),
        (1.5, "clock"),
    )
    if kind == "fixed":
        near = [phrase for phrase in fixed if not phrase.german.startswith(_FAR)]
        return _with_clock(rng, rng.choice(near if brief else fixed))
    if kind == "weekday":
        return _with_clock(rng, Weekday(rng.randrange(7), rng.choice((0, -1 if ago else 1))))
    if kind == "date":
        return (Date(rng.randint(1, 28), rng.randrange(12), chance(rng, 0.5)),)
    if kind == "span":
        unit = rng.choice(_SPANS)
        return (Span(rng.randint(2 if unit is NOUN["Tag"] else 1, 6), unit, ago),)
    return (clock_time(rng),)


def _with_clock(rng: Random, day: Time) -> tuple[Time, ...]:
    suits = isinstance(day, Weekday) or (isinstance(day, Phrase) and day.german in phrases.CLOCK_DAYS)
    return (day, clock_time(rng)) if suits and chance(rng, 0.35) else (day,)
