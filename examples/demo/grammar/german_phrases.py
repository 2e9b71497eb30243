"""German noun phrases, pronouns, places and predicates."""

from __future__ import annotations

from typing import Optional

from grammar import german_forms as forms
from grammar.entries import Case, City, Gender, Noun
from grammar.german_numbers import number_word
from grammar.meaning import (
    Comparison,
    Determiner,
    Interrogative,
    It,
    Measure,
    Name,
    Nominal,
    NounPhrase,
    Place,
    Predicate,
    Pronoun,
    Relative,
)

_DECLENSION = {
    Determiner.DEFINITE: "weak",
    Determiner.DEMONSTRATIVE: "weak",
    Determiner.INDEFINITE: "mixed",
    Determiner.NEGATIVE: "mixed",
    Determiner.POSSESSIVE: "mixed",
    Determiner.COUNTED: "strong",
    Determiner.HOW_MANY: "strong",
}


def agreement(nominal: Optional[Nominal]) -> tuple[int, bool]:
    """Person of a subject, and whether it is plural."""
    if isinstance(nominal, Pronoun):
        return nominal.person, nominal.plural
    return 3, isinstance(nominal, (NounPhrase, Relative)) and nominal.plural


def is_bare(phrase: NounPhrase) -> bool:
    """True for an indefinite without article: a plural or a substance."""
    return phrase.determiner is Determiner.INDEFINITE and (phrase.plural or "mass" in phrase.noun.classes)


def nominal(meaning: Nominal, case: Case) -> str:
    """Put a subject or object in a case, without its relative clause."""
    if isinstance(meaning, NounPhrase):
        return _noun_phrase(meaning, case)
    if isinstance(meaning, Pronoun):
        return forms.personal_pronoun(meaning.person, meaning.plural, meaning.gender, case)
    if isinstance(meaning, Relative):
        return forms.relative_pronoun(meaning.noun.gender, meaning.plural, case)
    if isinstance(meaning, Interrogative):
        return forms.interrogative(meaning.human, case)
    return "es" if isinstance(meaning, It) else meaning.text


def prepositional(preposition: str, meaning: Nominal, case: Case) -> str:
    """A prepositional object: vom Fest, but 'von dem Fest, das ...' before a relative clause."""
    text = nominal(meaning, case)
    if isinstance(meaning, NounPhrase) and meaning.relative is None:
        return forms.contract(preposition, text)
    return f"{preposition} {text}"


def place(meaning: Place) -> str:
    """Say where with the dative (im Garten), where to with zu or the accusative (in den Garten)."""
    if isinstance(meaning.where, City):
        return f"{'nach' if meaning.towards else 'in'} {meaning.where.german}"
    venue = meaning.where
    preposition = venue.german_to if meaning.towards else venue.german_at
    accusative = meaning.towards and preposition != "zu"
    case = Case.ACCUSATIVE if accusative else Case.DATIVE
    return forms.contract(preposition, _noun_phrase(NounPhrase(venue.noun), case))


def by_vehicle(noun: Noun) -> str:
    """Say how one travels: mit dem Zug."""
    return f"mit {_noun_phrase(NounPhrase(noun), Case.DATIVE)}"


def predicate(meaning: Predicate) -> str:
    """What stands with sein or kosten: älter als der Mann, drei Jahre alt."""
    if isinstance(meaning, Measure):
        amount = f"{number_word(meaning.count)} {meaning.unit.plural}"
        return f"{amount} {meaning.adjective.german}" if meaning.adjective else amount
    assert isinstance(meaning, Comparison)
    if meaning.than is None:
        return meaning.adjective.german
    return f"{meaning.adjective.german_comparative} als {nominal(meaning.than, Case.NOMINATIVE)}"


def _noun_phrase(phrase: NounPhrase, case: Case) -> str:
    gender, plural = phrase.noun.gender, phrase.plural
    declension = _declension(phrase)
    adjectives = [forms.adjective(entry.stem, declension, gender, plural, case) for entry in phrase.adjectives]
    noun = forms.noun(phrase.noun, plural, case)
    return " ".join([*_determiner(phrase, case), *adjectives, noun])


def _declension(phrase: NounPhrase) -> str:
    if is_bare(phrase) or isinstance(phrase.owner, (Name, Relative)):
        return "strong"
    return _DECLENSION[phrase.determiner]


def _determiner(phrase: NounPhrase, case: Case) -> list[str]:
    gender, plural = phrase.noun.gender, phrase.plural
    if phrase.determiner is Determiner.DEFINITE:
        return [forms.definite_article(gender, plural, case)]
    if phrase.determiner is Determiner.DEMONSTRATIVE:
        return [forms.der_word("dies", gender, plural, case)]
    if phrase.determiner is Determiner.INDEFINITE:
        return [] if is_bare(phrase) else [forms.ein_word("ein", gender, False, case)]
    if phrase.determiner is Determiner.NEGATIVE:
        return [forms.ein_word("kein", gender, plural, case)]
    if phrase.determiner is Determiner.COUNTED:
        return [number_word(phrase.count)]
    if phrase.determiner is Determiner.HOW_MANY:
        return ["wie", forms.der_word("viel", gender, plural, case)]
    return [_possessive(phrase, gender, case)]


def _possessive(phrase: NounPhrase, gender: Gender, case: Case) -> str:
    owner = phrase.owner
    if isinstance(owner, Name):
        return f"{owner.text}s"
    if isinstance(owner, Relative):
        return forms.relative_pronoun(owner.noun.gender, owner.plural, Case.GENITIVE)
    assert owner is not None
    stem = forms.possessive_stem(owner.person, owner.plural, owner.gender)
    return forms.ein_word(stem, gender, phrase.plural, case)
