"""English noun phrases, pronouns, places and predicates."""

from __future__ import annotations

from grammar import english_forms as forms
from grammar.english_numbers import number_word
from grammar.entries import Adjective, City
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


def nominal(meaning: Nominal, is_subject: bool) -> str:
    """Say a subject or object, without its relative clause."""
    if isinstance(meaning, NounPhrase):
        return _noun_phrase(meaning)
    if isinstance(meaning, Pronoun):
        return forms.personal_pronoun(meaning.person, meaning.plural, meaning.gender, meaning.human, is_subject)
    if isinstance(meaning, Relative):
        return "who" if is_subject and meaning.noun.is_person else "that"
    if isinstance(meaning, Interrogative):
        return "who" if meaning.human else "what"
    return "it" if isinstance(meaning, It) else meaning.text


def place(meaning: Place) -> str:
    """Say where, or where to."""
    if isinstance(meaning.where, City):
        return f"{'to' if meaning.towards else 'in'} {meaning.where.english}"
    venue = meaning.where
    preposition = venue.english_to if meaning.towards else venue.english_at
    return f"{preposition} the {venue.noun.english}"


def predicate(meaning: Predicate) -> str:
    """What stands with be or cost: older than the man, three years old."""
    if isinstance(meaning, Measure):
        amount = f"{number_word(meaning.count)} {meaning.unit.english_plural}"
        return f"{amount} {meaning.adjective.english}" if meaning.adjective else amount
    assert isinstance(meaning, Comparison)
    if meaning.than is None:
        return meaning.adjective.english
    return f"{meaning.adjective.english_comparative} than {nominal(meaning.than, True)}"


def _noun_phrase(phrase: NounPhrase) -> str:
    noun = phrase.noun.english_plural if phrase.plural else phrase.noun.english
    described = " ".join([*map(_english, phrase.adjectives), noun])
    determiner = _determiner(phrase, described)
    return f"{determiner} {described}" if determiner else described


def _english(adjective: Adjective) -> str:
    return adjective.english


def _determiner(phrase: NounPhrase, described: str) -> str:
    bare = phrase.plural or "mass" in phrase.noun.classes
    if phrase.determiner is Determiner.DEFINITE:
        return "the"
    if phrase.determiner is Determiner.DEMONSTRATIVE:
        return "these" if phrase.plural else "this"
    if phrase.determiner is Determiner.INDEFINITE:
        return "" if bare else forms.indefinite_article(described)
    if phrase.determiner is Determiner.NEGATIVE:
        return "any" if bare else forms.indefinite_article(described)
    if phrase.determiner is Determiner.COUNTED:
        return number_word(phrase.count)
    if phrase.determiner is Determiner.HOW_MANY:
        return "how many"
    return _possessive(phrase)


def _possessive(phrase: NounPhrase) -> str:
    owner = phrase.owner
    if isinstance(owner, Name):
        return f"{owner.text}'s"
    if isinstance(owner, Relative):
        return "whose"
    assert owner is not None
    return forms.possessive(owner.person, owner.plural, owner.gender, owner.human)
