"""English inflection: verbs, pronouns and the indefinite article."""

from __future__ import annotations

import re
from typing import Optional

from grammar.entries import Gender, Verb

AUXILIARIES = ("be", "will", "can", "would")

_SUBJECTS = {(1, False): "I", (2, False): "you", (1, True): "we", (3, True): "they"}
_OBJECTS = {(1, False): "me", (2, False): "you", (1, True): "us", (3, True): "them"}
_POSSESSIVES = {(1, False): "my", (2, False): "your", (1, True): "our", (3, True): "their"}
_THIRD = {
    Gender.MASCULINE: ("he", "him", "his"),
    Gender.FEMININE: ("she", "her", "her"),
}
_NEUTER = ("it", "it", "its")


def personal_pronoun(person: int, plural: bool, gender: Optional[Gender], human: bool, is_subject: bool) -> str:
    """A personal pronoun; `gender` is German, so it counts only for people."""
    if person == 3 and not plural:
        return _third_person(gender, human)[0 if is_subject else 1]
    return (_SUBJECTS if is_subject else _OBJECTS)[person, plural]


def possessive(person: int, plural: bool, gender: Optional[Gender], human: bool) -> str:
    """A possessive determiner."""
    if person == 3 and not plural:
        return _third_person(gender, human)[2]
    return _POSSESSIVES[person, plural]


def _third_person(gender: Optional[Gender], human: bool) -> tuple[str, str, str]:
    return _THIRD.get(gender, _NEUTER) if human and gender else _NEUTER


def indefinite_article(following: str) -> str:
    """A or an, by the sound of the word that follows."""
    return "an" if re.match(r"[aeiou](?!ni|se|uro)", following) else "a"


def be(past: bool, person: int, plural: bool) -> str:
    """The forms of be; 'you' takes those of the plural."""
    if plural or person == 2:
        return "were" if past else "are"
    if past:
        return "was"
    return "am" if person == 1 else "is"


def present(base: str, person: int, plural: bool) -> str:
    """The simple present of any verb but the modals."""
    if base == "be":
        return be(False, person, plural)
    if plural or person != 3:
        return base
    if base == "have":
        return "has"
    if re.search(r"(s|sh|ch|x|o)$", base):
        return base + "es"
    return base[:-1] + "ies" if re.search(r"[^aeiou]y$", base) else base + "s"


def past(base: str, form: str, person: int, plural: bool) -> str:
    """The simple past, which agrees only in be."""
    return be(True, person, plural) if base == "be" else form


def gerund(base: str) -> str:
    """The form in -ing: writing, getting, picking."""
    if re.search(r"[^e]e$", base) and base != "be":
        return base[:-1] + "ing"
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", base) or base in ("travel", "forget"):
        return base + base[-1] + "ing"
    return base + "ing"


def participle(base: str, verb: Verb) -> str:
    """The past participle of the verb itself or of the be that carries it."""
    return "been" if base == "be" else verb.english_participle
