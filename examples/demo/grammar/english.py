"""English syntax: auxiliaries, do-support, passives, particles and word order."""

from __future__ import annotations

import re
from typing import Optional

from grammar import english_forms as forms
from grammar import english_phrases as phrases
from grammar.english_numbers import time_phrase
from grammar.entries import Argument
from grammar.meaning import (
    Clause,
    Determiner,
    Front,
    Interrogative,
    Link,
    Nominal,
    NounPhrase,
    Pronoun,
    Relative,
    Sentence,
    Tense,
)
from grammar.phrases import BUT, IN_ORDER

_PASTS = (Tense.PAST, Tense.NARRATIVE, Tense.PLUPERFECT)


def realise(sentence: Sentence) -> str:
    """Say a sentence in English."""
    inverted = sentence.question and not _is_wh(sentence.main.subject)
    parts = [_clause(sentence.main, inverted)]
    comma = ""
    if sentence.link is not None:
        comma = " ," if sentence.link.first or sentence.link.conjunction is BUT else ""
        parts.insert(0 if sentence.link.first else 1, _link(sentence.link))
    return _punctuate(f"{comma} ".join(parts), "?" if sentence.question else ".")


def _link(link: Link) -> str:
    word = link.conjunction.english if link.conjunction else ""
    if link.clause.subject is None:
        word = "in order to" if link.conjunction is IN_ORDER else "to"
    return f"{word} {_clause(link.clause, False)}"


def _clause(clause: Clause, inverted: bool) -> str:
    """A clause; without a subject it is the part of an infinitive that follows 'to'."""
    passive = clause.front is Front.OBJECT
    subject = clause.objects[0] if passive else clause.subject
    auxiliary, verbs = _verb_group(clause, subject, inverted, passive)
    said = phrases.nominal(subject, True) + _relative_clause(subject) if subject else ""
    opening, times = _opening(clause)
    core = [auxiliary, said] if inverted else [said, auxiliary]
    words = [*opening, *core, *_negation(clause), *_frequency(clause)]
    # Of a plain be nothing is left here: it is its own auxiliary.
    words += [*verbs[:-1], *_verb_and_objects(clause, verbs[-1] if verbs else "", passive)]
    return " ".join(word for word in [*words, *_adverbials(clause), *times] if word)


def _verb_group(clause: Clause, subject: Optional[Nominal], inverted: bool, passive: bool) -> tuple[str, list[str]]:
    """The finite auxiliary, if there is one, and the other verbs."""
    base = clause.verb.english
    chain = [base]
    if passive:
        chain = ["be", clause.verb.english_participle]
    elif clause.ongoing:
        chain = ["be", forms.gerund(base)]
    if subject is None:
        return "", chain
    past, agreement = clause.tense in _PASTS, _agreement(subject)
    if clause.tense is Tense.PLUPERFECT:
        return "had", [forms.participle(chain[0], clause.verb), *chain[1:]]
    head_past = clause.verb.english_past
    if clause.modal:
        chain = [clause.modal.verb, *clause.modal.rest.split(), *chain]
        head_past = clause.modal.past
    elif clause.tense is Tense.FUTURE:
        chain = ["will", *chain]
    if chain[0] in forms.AUXILIARIES:
        return _finite(chain[0], head_past, past, agreement), chain[1:]
    if inverted or clause.negated:
        return _finite("do", "did", past, agreement), chain
    return "", [_finite(chain[0], head_past, past, agreement), *chain[1:]]


def _finite(base: str, past_form: str, past: bool, agreement: tuple[int, bool]) -> str:
    if past:
        return forms.past(base, past_form, *agreement)
    return base if base in ("will", "can", "would") else forms.present(base, *agreement)


def _agreement(subject: Nominal) -> tuple[int, bool]:
    if isinstance(subject, Pronoun):
        return subject.person, subject.plural
    return 3, isinstance(subject, (NounPhrase, Relative)) and subject.plural


def _negation(clause: Clause) -> list[str]:
    if clause.no_longer:
        return ["no longer"]
    return ["not"] if clause.negated else []


def _frequency(clause: Clause) -> list[str]:
    return [clause.frequency.english] if clause.frequency else []


def _opening(clause: Clause) -> tuple[list[str], list[str]]:
    """What stands before the subject, and the times that are left for the end."""
    times = [time_phrase(time) for time in clause.times]
    if clause.front is Front.TIME:
        return [*times, ","], []
    if clause.asked:
        return [clause.asked.english], times
    for meaning in clause.objects:
        if _is_wh(meaning):
            return [phrases.nominal(meaning, False)], times
    return [], times


def _is_wh(meaning: Optional[Nominal]) -> bool:
    if isinstance(meaning, NounPhrase):
        return meaning.determiner is Determiner.HOW_MANY or isinstance(meaning.owner, Relative)
    return isinstance(meaning, (Relative, Interrogative))


def _verb_and_objects(clause: Clause, verb: str, passive: bool) -> list[str]:
    """The verb, its particle and objects: direct before prepositional, pronoun before particle."""
    particle = clause.verb.particle
    if passive:
        assert clause.subject is not None
        return [verb, particle, "by", phrases.nominal(clause.subject, False)]
    pairs = sorted(zip(clause.verb.arguments, clause.objects), key=_is_prepositional)
    said = [_object(argument, meaning) for argument, meaning in pairs]
    if pairs and isinstance(pairs[0][1], Pronoun) and not pairs[0][0].english_preposition:
        return [verb, said[0], particle, *said[1:]]
    return [verb, particle, *said]


def _is_prepositional(pair: tuple[Argument, Nominal]) -> bool:
    return bool(pair[0].english_preposition)


def _object(argument: Argument, meaning: Nominal) -> str:
    """An object with its preposition, which stays behind where the object moves to the front."""
    if _is_wh(meaning):
        return argument.english_preposition
    text = phrases.nominal(meaning, False) + _relative_clause(meaning)
    return f"{argument.english_preposition} {text}".strip()


def _adverbials(clause: Clause) -> list[str]:
    predicate = [phrases.predicate(clause.predicate)] if clause.predicate else []
    manner = [clause.manner.english] if clause.manner else []
    place = [phrases.place(clause.place)] if clause.place else []
    vehicle = [f"by {clause.vehicle.english}"] if clause.vehicle else []
    company = [f"with {phrases.nominal(clause.companion, False)}"] if clause.companion else []
    return [*predicate, *manner, *place, *vehicle, *company]


def _relative_clause(meaning: Nominal) -> str:
    if not isinstance(meaning, NounPhrase) or meaning.relative is None:
        return ""
    return f" {_clause(meaning.relative, False)}"


def _punctuate(text: str, mark: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"(?: ,)+", ",", text)
    text = text.replace("can not ", "cannot ")
    return text[0].upper() + text[1:] + mark
